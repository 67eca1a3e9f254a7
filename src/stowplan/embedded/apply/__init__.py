"""Server-side apply: who manages which field, and what becomes of an object that several people describe."""

from stowplan.embedded.apply.managedfields import (
    ApplyResult,
    Manager,
    apply_configuration,
    managed_after_update,
)

__all__ = ["ApplyResult", "Manager", "apply_configuration", "managed_after_update"]
