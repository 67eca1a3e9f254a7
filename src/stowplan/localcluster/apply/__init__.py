"""Managed fields and server-side apply: who owns which field, and objects that several writers apply.

`configuration` merges what is applied, `managedfields` tracks owners, `shapes` and `fieldtree` are sets of
fields.
"""

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
