"""A plugin's result for a pod, or for a pod on a node; and the errors of running plugins."""

from enum import IntEnum
from typing import NamedTuple


class Code(IntEnum):
    """Status codes, numbered and named as in Kubernetes."""

    SUCCESS = 0
    ERROR = 1
    UNSCHEDULABLE = 2
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    WAIT = 4
    SKIP = 5
    PENDING = 6

    label: str
    """The name people know, such as `UnschedulableAndUnresolvable`."""
    is_rejection: bool

    def __init__(self, number: int) -> None:
        self.label = self.name.title().replace("_And_", "And").replace("_", "")
        self.is_rejection = self.name.startswith("UNSCHEDULABLE") or self.name == "PENDING"


class Status(NamedTuple):
    """A code, its reasons, and the plugin they come from (filled in by the runtime)."""

    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def message(self) -> str:
        return ", ".join(self.reasons)

    @property
    def is_success(self) -> bool:
        return self.code is Code.SUCCESS

    def by(self, plugin: str) -> "Status":
        """The same, said by a named plugin."""
        return Status(self.code, self.reasons, plugin)


SUCCESS = Status(Code.SUCCESS)
SKIP = Status(Code.SKIP)
SKIP_CLASS = Status(Code.SKIP, ("nothing to do for any pod like this",))
"""A skip of all pods with the same signature: the next ones are not asked about again."""


def unschedulable(*reasons: str) -> Status:
    """Does not fit as things are; removing pods might help."""
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    """Does not fit, and removing pods would not help."""
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)


def error(*reasons: str) -> Status:
    """Something went wrong: the attempt fails and is tried again."""
    return Status(Code.ERROR, reasons)


class PluginError(Exception):
    """A plugin raised or returned what it must not: only this pod's attempt fails.

    `nodes` names the nodes it happened on, where it happened on nodes.
    """

    def __init__(self, plugin: str, message: str, nodes: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.plugin = plugin
        self.message = message
        self.nodes = nodes


class ChoiceError(PluginError):
    """The ranking named a row that cannot take the pod. It must not happen; if it does, nothing is bound."""

    def __init__(self, row: int, why: str) -> None:
        super().__init__("", f"the row chosen for the pod, {row}, {why}; nothing was assumed")


class ProfileError(ValueError):
    """A profile that cannot be put together; one clear line. `hint` is what may help, if that is known."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class NotBuiltError(PluginError):
    """The pod needs something stowplan does not do yet."""
