"""What a configuration of an earlier kind says that one of today cannot."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Heritage:
    """Nothing, for a configuration of today.

    `notes` are lines about what has no exact equivalent, and what was done instead. `old_names` has the
    priority that a score plugin stands for. With `all_reasons` a pod that fits nowhere is told every reason
    that stands against a node, not only the first. `lock` is the object for leader election where it is
    another than a Lease. `policy_file` has the Policy that the configuration refers to.
    """

    notes: tuple[str, ...] = ()
    old_names: Mapping[str, str] = field(default_factory=dict)
    all_reasons: bool = False
    lock: str = ""
    policy_file: str = ""


NO_HERITAGE: Final = Heritage()
