"""A group's document for a terminal: the answer first, then the domains, then what to do."""

from collections.abc import Sequence
from typing import Final

from stowplan.explain.document.group import GroupDocument, StoppedBy
from stowplan.explain.document.pod import GroupChange
from stowplan.explain.layout import PLAIN, Palette, cleaned, hanging, middle, plural
from stowplan.explain.states import FITS, PLACED, WAITING
from stowplan.explain.terminal.preemption import group_would_do

DOMAINS: Final = 8
"""How many domains are shown unless all are asked for: those first in which most members fit."""
_NAME: Final = 32
_COLOURS: Final = {WAITING: "yellow", FITS: "green", PLACED: "green"}


def render_group(found: GroupDocument, *, all_nodes: bool = False, palette: Palette = PLAIN) -> str:
    """The explanation as text."""
    found = cleaned(found)
    lines = _headline(found, palette)
    if found.remedy:
        lines += hanging(palette.paint("helped by: ", "green"), found.remedy)
    lines += [*_situation(found), ""]
    if found.parts:
        lines += [*_parts(found.parts, palette), ""]
    if found.domains:
        lines += [*_domains(found, all_nodes, palette), ""]
    if found.stopped_by is not None and found.state == WAITING:
        lines += [*_stop(found.stopped_by, palette), ""]
    if found.preemption is not None and found.state == WAITING:
        lines += [*group_would_do(found.preemption, palette), ""]
    if found.changes:
        lines += [palette.paint("What would help", "bold"), *_changes(found.changes, palette), ""]
    if found.message:
        lines += [palette.paint("The scheduler says", "bold"), *hanging("  ", found.message), ""]
    return "\n".join(line.rstrip() for line in lines).rstrip() + "\n"


def _headline(found: GroupDocument, palette: Palette) -> list[str]:
    """The headline, with the group and its state in colour."""
    if not found.exists:
        begin = f"{found.kind} {found.group}"
        return hanging(
            f"{found.kind} {palette.paint(found.group, 'bold')}", found.headline.removeprefix(begin)
        )
    verb = "" if found.state == FITS else "is "
    reason = found.headline.removeprefix(f"{found.kind} {found.group} {verb}{found.state}: ")
    state = palette.paint(found.state, "bold", _COLOURS.get(found.state, "yellow"))
    return hanging(f"{found.kind} {palette.paint(found.group, 'bold')} {verb}{state}: ", reason)


def _situation(found: GroupDocument) -> list[str]:
    lines = hanging("", "; ".join(found.situation))
    return [*lines, *hanging("source: ", found.source)] if found.source else lines


def _parts(parts: Sequence[GroupDocument], palette: Palette) -> list[str]:
    names = [middle(part.group.partition("/")[2], _NAME) for part in parts]
    width, states = max(map(len, names)), max(len(part.state) for part in parts)
    lines = [palette.paint("Its groups", "bold")]
    for name, part in zip(names, parts, strict=True):
        colour = _COLOURS.get(part.state, "yellow")
        state = palette.paint(part.state.ljust(states), colour)
        lines += hanging(f"  {name:<{width}}  {state}  ", part.reason)
    return lines


def _domains(found: GroupDocument, all_nodes: bool, palette: Palette) -> list[str]:
    tried = sorted(found.domains, key=lambda one: (-one.fits, one.domain))
    shown = tried if all_nodes else tried[:DOMAINS]
    if len(tried) == 1 and not tried[0].domain:
        one = tried[0]
        return [f"Tried on {plural(one.nodes, 'node')}: {plural(one.fits, 'member fits', 'members fit')}"]
    heading = f"Domains tried ({found.topology_key})"
    names = [middle(one.domain or "whole cluster", _NAME) for one in shown]
    width = max(map(len, names))
    lines = [palette.paint(heading, "bold")]
    for name, one in zip(names, shown, strict=True):
        figure = f"{one.fits:>4} fit"
        fits = palette.paint(figure, "green" if one.enough else "red")
        begin = f"  {name:<{width}}  {plural(one.nodes, 'node'):>9}  {fits}  "
        stopped = "" if not one.stopped_by else f"{_short(one.stopped_by)}: {one.message}"
        lines += hanging(begin, stopped or "all members")
    left = found.domain_count - len(shown)
    if left:
        lines.append(f"  (+{left} more{'' if all_nodes else ': --all-nodes'})")
    return lines


def _stop(stop: StoppedBy, palette: Palette) -> list[str]:
    says, asks, more = stop.headline.partition(" (asks for ")
    lines = hanging("", f"{palette.paint(says, 'bold')}{asks}{more}")
    if not stop.funnel:
        return [*lines, *hanging("  ", stop.message)]
    width = len(str(stop.nodes)) + 3
    lines.append(f"{stop.nodes:>{width}} nodes")
    plugins = max(len(line.plugin) for line in stop.funnel)
    for line in stop.funnel:
        figure = palette.paint(f"-{line.nodes}".rjust(width), "red")
        lines += hanging(f"{figure}  {line.plugin:<{plugins}}  ", line.reason)
    return lines


def _changes(changes: Sequence[GroupChange], palette: Palette) -> list[str]:
    width = max(len(change.text) for change in changes)
    arrow = palette.paint("→", "green")
    lines = []
    for change in changes:
        lines.append(f"  {change.text:<{width}}  {arrow} {change.outcome}")
        lines += [f"    {line}" for line in change.command.splitlines()]
    return lines


def _short(key: str) -> str:
    return key.partition("/")[2] or key
