"""Kinds of volumes that were built in once, on nodes where CSI drivers took them over."""

from typing import Final

from stowplan.api.csitranslation import in_tree_kind, translated_affinity
from stowplan.api.storage import CSINode, PersistentVolume, VolumeNodeAffinity

MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"


def is_migrated(plugin: str, node: CSINode | None) -> bool:
    """Whether a node leaves a kind of volumes to a CSI driver."""
    return node is not None and plugin in node.metadata.annotations.get(MIGRATED_PLUGINS, "").split(",")


def affinity_seen_from(volume: PersistentVolume, node: CSINode | None) -> VolumeNodeAffinity | None:
    """What a node needs to reach a volume, in the words of who takes care of it there."""
    kind = in_tree_kind(volume.spec)
    if kind is None or not kind.migrated or not is_migrated(kind.plugin, node):
        return volume.spec.node_affinity
    return translated_affinity(volume, kind.zone_key, kind.region_key)
