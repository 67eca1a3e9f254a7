"""VolumeRestrictions: disks and claims that cannot be used by everybody at once."""

from stowplan.plugins.volumerestrictions.plugin import VolumeRestrictions

__all__ = ["VolumeRestrictions"]
