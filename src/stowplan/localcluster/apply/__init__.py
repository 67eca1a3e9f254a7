"""Managed fields and server-side apply: who owns which field, and what several people want of an object."""

from stowplan.localcluster.apply.configuration import Applier, ApplyResult, apply_configuration
from stowplan.localcluster.apply.managedfields import ManagedFields, after_change, after_creation, plain_json
from stowplan.localcluster.apply.shapes import ObjectType

__all__ = [
    "Applier",
    "ApplyResult",
    "ManagedFields",
    "ObjectType",
    "after_change",
    "after_creation",
    "apply_configuration",
    "plain_json",
]
