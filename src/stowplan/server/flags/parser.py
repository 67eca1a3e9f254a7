"""Flags and how arguments are parsed: `--name=value`, `--name value`, `--switch`, `-v2`, in any order."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from stowplan.gocompat.durations import Duration
from stowplan.gocompat.quoting import quote

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class FlagKind(Generic[Value]):
    """A type of flag values.

    `read` gets the text, the current value, and whether the flag was given before (lists grow then, instead
    of replacing the default). It raises ValueError with the reason. `implied` is the value of the flag
    without one (pflag's NoOptDefVal). Defaults that show as one of `zeros` are not in the help.
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

    `ignored` says why it has no effect. `deprecated` says what to use instead; such a flag is not in the
    help, and using it prints a warning.
    """

    name: str
    kind: FlagKind[Any]
    default: Any
    help: str
    shorthand: str = ""
    ignored: str = ""
    deprecated: str = ""

    @property
    def shown(self) -> str:
        """The flag as error messages name it."""
        return f"-{self.shorthand}, --{self.name}" if self.shorthand else f"--{self.name}"


@dataclass(frozen=True, slots=True)
class FlagGroup:
    """Flags under one heading of the help."""

    name: str
    flags: tuple[Flag, ...]

    @property
    def heading(self) -> str:
        return f"{self.name[:1].upper()}{self.name[1:]} flags"


class FlagError(ValueError):
    """Invalid arguments; `show_usage` if the usage is printed with the error."""

    def __init__(self, message: str, *, show_usage: bool = True) -> None:
        super().__init__(message)
        self.show_usage = show_usage


class Parsed:
    """Every flag's value, with a getter per type, and which flags were given."""

    def __init__(self, groups: Iterable[FlagGroup]) -> None:
        self._flags = {flag.name: flag for group in groups for flag in group.flags}
        self._values: dict[str, Any] = {name: flag.default for name, flag in self._flags.items()}
        self._given: dict[str, None] = {}
        self.rest: list[str] = []

    def flag(self, name: str) -> Flag | None:
        """A flag by its name, with dashes or underscores."""
        return self._flags.get(name.replace("_", "-"))

    def by_shorthand(self, letter: str) -> Flag | None:
        return next((flag for flag in self._flags.values() if flag.shorthand == letter), None)

    def put(self, flag: Flag, text: str) -> None:
        """Set a flag. Raises FlagError."""
        name = flag.name
        try:
            self._values[name] = flag.kind.read(text, self._values[name], name in self._given)
        except ValueError as error:
            raise FlagError(f"invalid argument {quote(text)} for {quote(flag.shown)} flag: {error}") from None
        self._given[name] = None

    def given(self, name: str) -> bool:
        """True if the flag is on the command line."""
        return name in self._given

    @property
    def ignored(self) -> list[Flag]:
        """The flags that were given and have no effect."""
        return [self._flags[name] for name in self._given if self._flags[name].ignored]

    @property
    def deprecated(self) -> list[Flag]:
        """The deprecated flags that were given."""
        return [self._flags[name] for name in self._given if self._flags[name].deprecated]

    def shown(self) -> dict[str, str]:
        """Every flag's value as text, by name."""
        return {name: self._flags[name].kind.show(self._values[name]) for name in sorted(self._flags)}

    def text(self, name: str) -> str:
        value = self._values[name]
        assert isinstance(value, str)
        return value

    def on(self, name: str) -> bool:
        value = self._values[name]
        assert isinstance(value, bool)
        return value

    def number(self, name: str) -> int:
        value = self._values[name]
        assert isinstance(value, int)
        return value

    def decimal(self, name: str) -> float:
        value = self._values[name]
        assert isinstance(value, float)
        return value

    def duration(self, name: str) -> Duration:
        value = self._values[name]
        assert isinstance(value, Duration)
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        value = self._values[name]
        assert isinstance(value, tuple)
        return value

    def value(self, name: str) -> Any:
        """A value of a type that has no getter."""
        return self._values[name]


def parse(arguments: Sequence[str], groups: Iterable[FlagGroup]) -> Parsed:
    """Parse arguments; positional ones are left in `rest`. Raises FlagError."""
    parsed = Parsed(groups)
    waiting = list(reversed(arguments))
    while waiting:
        argument = waiting.pop()
        if argument == "--":
            parsed.rest += reversed(waiting)
            break
        if argument.startswith("--"):
            _read_long(argument, waiting, parsed)
        elif argument.startswith("-") and argument != "-":
            _read_short(argument[1:], waiting, parsed)
        else:
            parsed.rest.append(argument)
    return parsed


def _read_long(argument: str, waiting: list[str], parsed: Parsed) -> None:
    name, equals, value = argument[2:].partition("=")
    if not name or name.startswith("-"):
        raise FlagError(f"bad flag syntax: {argument}")
    flag = parsed.flag(name)
    if flag is None:
        raise FlagError(f"unknown flag: --{name}")
    if not equals:
        if not flag.kind.implied and not waiting:
            raise FlagError(f"flag needs an argument: --{name}")
        value = flag.kind.implied or waiting.pop()
    parsed.put(flag, value)


def _read_short(letters: str, waiting: list[str], parsed: Parsed) -> None:
    """Shorthands behind one dash; what follows one that takes a value is its value."""
    while letters:
        letter, behind = letters[0], letters[1:]
        flag = parsed.by_shorthand(letter)
        if flag is None:
            raise FlagError(f"unknown shorthand flag: {_quoted_letter(letter)} in -{letters}")
        if len(behind) > 1 and behind.startswith("="):
            value, behind = behind[1:], ""
        elif flag.kind.implied:
            value = flag.kind.implied
        elif behind:
            value, behind = behind, ""
        elif waiting:
            value = waiting.pop()
        else:
            raise FlagError(f"flag needs an argument: {_quoted_letter(letter)} in -{letters}")
        parsed.put(flag, value)
        letters = behind


def _quoted_letter(letter: str) -> str:
    if letter in "'\"":
        return f"'{letter}'" if letter == '"' else r"'\''"
    return f"'{quote(letter)[1:-1]}'"
