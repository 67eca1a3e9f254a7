"""What a flag is: a name, a kind of value, a default, and a sentence for the help."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Kind(Generic[Value]):
    """A type of values.

    `read` gets the text, the value so far, and whether an earlier occurrence gave that one (lists grow
    then, instead of replacing the default). It raises ValueError with the reason. `implied` is what the
    flag alone means; without it a value has to follow. Defaults that show as one of `zeros` are not worth
    mentioning in the help.
    """

    name: str
    read: Callable[[str, Value, bool], Value]
    show: Callable[[Value], str]
    implied: str = ""
    zeros: frozenset[str] = frozenset({"", "0", "false"})
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag.

    `ignored` says why setting it changes nothing here. `deprecated` says what to use instead; such a flag is
    not in the help, and whoever uses it is told.
    """

    name: str
    kind: Kind[Any]
    default: Any
    help: str
    shorthand: str = ""
    ignored: str = ""
    deprecated: str = ""

    @property
    def shown(self) -> str:
        """The flag as messages name it."""
        return f"-{self.shorthand}, --{self.name}" if self.shorthand else f"--{self.name}"


@dataclass(frozen=True, slots=True)
class Group:
    """Flags that belong together, under a heading in the help."""

    name: str
    flags: tuple[Flag, ...]

    @property
    def heading(self) -> str:
        return f"{self.name[:1].upper()}{self.name[1:]} flags"
