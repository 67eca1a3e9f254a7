"""The explanation of a group of pods for a terminal: the answer first, then the domains, then what to do."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from stowplan.explain.group_preemption import group_would_do
from stowplan.explain.layout import PLAIN, Palette, cleaned, hanging, middle, plural
from stowplan.explain.states import FITS, PLACED, WAITING

Document = Mapping[str, Any]

DOMAINS: Final = 8
"""How many domains are shown unless all are asked for: those first in which most members fit."""
_NAME: Final = 32
_COLOURS: Final = {WAITING: "yellow", FITS: "green", PLACED: "green"}


def render_group(found: Document, *, all_nodes: bool = False, palette: Palette = PLAIN) -> str:
    """The explanation as text, of the document that JSON shows."""
    found = cleaned(found)
    lines = [*_headline(found, palette), *_situation(found), ""]
    if found["parts"]:
        lines += [*_parts(found["parts"], palette), ""]
    if found["domains"]:
        lines += [*_domains(found, all_nodes, palette), ""]
    if found["stoppedBy"] and found["state"] == WAITING:
        lines += [*_stop(found["stoppedBy"], palette), ""]
    if found.get("preemption") and found["state"] == WAITING:
        lines += [*group_would_do(found["preemption"], palette), ""]
    if found["changes"]:
        lines += [palette.paint("What would help", "bold"), *_changes(found["changes"], palette), ""]
    if found["message"]:
        lines += [palette.paint("The scheduler says", "bold"), *hanging("  ", found["message"]), ""]
    return "\n".join(line.rstrip() for line in lines).rstrip() + "\n"


def _headline(found: Document, palette: Palette) -> list[str]:
    state = palette.paint(found["state"], "bold", _COLOURS.get(found["state"], "yellow"))
    name = palette.paint(found["group"], "bold")
    return hanging(
        f"{found['kind']} {name} {'' if found['state'] == FITS else 'is '}{state}: ", found["reason"]
    )


def _situation(found: Document) -> list[str]:
    parts = []
    things = "groups" if found["kind"] == "CompositePodGroup" else "pods"
    if found["policy"] == "gang":
        parts.append(f"gang of at least {found['minimum']} {things}")
    else:
        parts.append("basic policy")
    if found["topologyKey"]:
        parts.append(f"all with the same {found['topologyKey']}")
    if things == "pods":
        parts.append(f"{plural(found['pods'], 'pod')}, {found['scheduled'] or 'none'} with a node")
    lines = hanging("", "; ".join(parts))
    return [*lines, *hanging("source: ", found["source"])] if found.get("source") else lines


def _parts(parts: Sequence[Document], palette: Palette) -> list[str]:
    names = [middle(part["group"].partition("/")[2], _NAME) for part in parts]
    width, states = max(map(len, names)), max(len(part["state"]) for part in parts)
    lines = [palette.paint("Its groups", "bold")]
    for name, part in zip(names, parts, strict=True):
        colour = _COLOURS.get(part["state"], "yellow")
        state = palette.paint(part["state"].ljust(states), colour)
        lines += hanging(f"  {name:<{width}}  {state}  ", part["reason"])
    return lines


def _domains(found: Document, all_nodes: bool, palette: Palette) -> list[str]:
    tried = sorted(found["domains"], key=lambda one: (-one["fits"], one["domain"]))
    shown = tried if all_nodes else tried[:DOMAINS]
    if len(tried) == 1 and not tried[0]["domain"]:
        one = tried[0]
        return [
            f"Tried on {plural(one['nodes'], 'node')}: {plural(one['fits'], 'member fits', 'members fit')}"
        ]
    heading = f"Domains tried ({found['topologyKey']})"
    names = [middle(one["domain"] or "whole cluster", _NAME) for one in shown]
    width = max(map(len, names))
    lines = [palette.paint(heading, "bold")]
    for name, one in zip(names, shown, strict=True):
        figure = f"{one['fits']:>4} fit"
        fits = palette.paint(figure, "green" if one["enough"] else "red")
        begin = f"  {name:<{width}}  {plural(one['nodes'], 'node'):>9}  {fits}  "
        stopped = "" if not one["stoppedBy"] else f"{_short(one['stoppedBy'])}: {one['message']}"
        lines += hanging(begin, stopped or "all members")
    left = found["domainCount"] - len(shown)
    if left:
        lines.append(f"  (+{left} more{'' if all_nodes else ': --all-nodes'})")
    return lines


def _stop(stop: Document, palette: Palette) -> list[str]:
    where = f" in {stop['domain']}" if stop["domain"] else ""
    asks = f" (asks for {stop['asks']})" if stop["asks"] else ""
    lines = hanging("", palette.paint(f"What stops it{where}: {stop['pod']}", "bold") + asks)
    if not stop["funnel"]:
        return [*lines, *hanging("  ", stop["message"])]
    width = len(str(stop["nodes"])) + 3
    lines.append(f"{stop['nodes']:>{width}} nodes")
    plugins = max(len(line["plugin"]) for line in stop["funnel"])
    for line in stop["funnel"]:
        figure = palette.paint(f"-{line['nodes']}".rjust(width), "red")
        lines += hanging(f"{figure}  {line['plugin']:<{plugins}}  ", line["reason"])
    return lines


def _changes(changes: Sequence[Document], palette: Palette) -> list[str]:
    width = max(len(change["text"]) for change in changes)
    arrow = palette.paint("→", "green")
    return [f"  {change['text']:<{width}}  {arrow} {change['domain'] or 'fits'}" for change in changes]


def _short(key: str) -> str:
    return key.partition("/")[2] or key
