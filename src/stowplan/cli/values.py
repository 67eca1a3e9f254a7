"""Values of options that are refused in one line, without the usage around it."""

import ipaddress
from collections.abc import Iterable
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from stowplan.gocompat.durations import Duration, DurationError


class Word(click.ParamType):  # type: ignore[type-arg]
    """A value of an option that takes several; what looks like an option is not taken for one."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if str(value).startswith("--"):
            raise _too_few(param, value)
        return str(value)


class AtLeast(click.ParamType):  # type: ignore[type-arg]
    """A whole number that is not below a minimum."""

    name = "integer"

    def __init__(self, minimum: int) -> None:
        self.minimum = minimum

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            number = int(value)
        except ValueError:
            number = self.minimum - 1
        if number < self.minimum:
            if str(value).startswith("--"):
                raise _too_few(param, value)
            raise _refused(param, f"a whole number of at least {self.minimum}", value)
        return number


class OneOf(click.ParamType):  # type: ignore[type-arg]
    """One of some names."""

    name = "name"

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return f"[{'|'.join(self.names)}]"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [CompletionItem(name) for name in self.names if name.startswith(incomplete)]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in self.names:
            raise _refused(param, f"one of {', '.join(self.names)}", value)
        return str(value)


class SomeOf(OneOf):
    """Some of a few names, separated by commas."""

    name = "names"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return f"[{','.join(self.names)}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = tuple(value) if isinstance(value, tuple) else tuple(str(value).split(","))
        if not set(found) <= set(self.names):
            raise _refused(param, f"some of {', '.join(self.names)}, separated by commas", value)
        return found


class Seconds(click.ParamType):  # type: ignore[type-arg]
    """A duration above zero as Go writes it, `50s` or `1m30s`, in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        try:
            seconds = Duration.parse(str(value)).seconds
        except DurationError:
            seconds = 0.0
        if seconds <= 0:
            raise _refused(param, "a duration such as 50s or 1m30s", value)
        return seconds


class AddressRange(click.ParamType):  # type: ignore[type-arg]
    """A range of addresses in CIDR notation, or `none`."""

    name = "range"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
        if value == "none":
            return None
        try:
            return ipaddress.ip_network(value)
        except ValueError:
            raise _refused(param, "a range such as 10.96.255.0/24, or none", value) from None


def _too_few(param: click.Parameter | None, value: Any) -> click.ClickException:
    what = getattr(param, "metavar", None) or "a value"
    return _refused(param, what, value)


def _refused(param: click.Parameter | None, expected: str, value: Any) -> click.ClickException:
    option = param.opts[0] if param is not None else "value"
    return click.ClickException(f"{option}: expected {expected}, got {value!r}")


def refuse_unused(ctx: click.Context, names: Iterable[str], switch: str, is_on: bool) -> None:
    """Refuse options that have no effect with a switch, or without it."""
    for option in ctx.command.params:
        given = ctx.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
        if option.name in names and given:
            how = "without" if is_on else "with"
            raise click.ClickException(f"{option.opts[0]}: expected only {how} {switch}")
