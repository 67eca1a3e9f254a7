"""An explanation for a terminal: the answer first, then the evidence, then what to do, on one screen.

It is made of the document that JSON shows, so it is the same whether the explanation was made here or comes
from a running scheduler.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from stowplan.explain.group_members import is_waiting, what_would_help, why_it_waits
from stowplan.explain.layout import (
    PLAIN,
    WIDTH,
    Palette,
    cleaned,
    hanging,
    indented,
    joined,
    middle,
    moment,
    plural,
    span,
    table,
)
from stowplan.explain.preemption import names, was_done, would_do
from stowplan.explain.states import FITS, GONE, PENDING
from stowplan.explain.wakes import sentence

NEAREST: Final = 3
"""How many near misses are shown unless all are asked for."""
NAME: Final = 40
"""How long names in a column may be."""

Document = Mapping[str, Any]

_PLACES: Final = {
    "active": "in the queue, will be tried next",
    "backoff": "in backoff",
    "unschedulable": "tried again on an event below",
    "gated": "held back before the queue",
    "incomplete": "waits for its group to exist",
    "pending": "waits for the next cycle of its group",
    "in flight": "being scheduled at this moment",
    "waiting": "waits at Permit",
    "binding": "being bound",
    "bound": "",
}
"""Where a pod is in a running scheduler, in a few words."""


def render(found: Document, *, all_nodes: bool = False, palette: Palette = PLAIN, now: float = 0.0) -> str:
    """The explanation as text. `now` is the time in seconds since 1970, for what lies ahead or behind."""
    found = cleaned(found)
    lines = [*_headline(found, palette), *_situation(found, now), *_notes(found), ""]
    if found["state"] == PENDING:
        lines += _pending(found, all_nodes, palette)
    elif found["state"] != GONE:
        lines += _chosen(found, palette)
    lines += _why_evicted(found, palette)
    return "\n".join(line.rstrip() for line in lines).rstrip() + "\n"


def _headline(found: Document, palette: Palette) -> list[str]:
    pod, nodes, state = found["pod"], found["nodes"], found["state"]
    message = found["message"]
    if state == PENDING:
        says = palette.paint("pending", "bold", "yellow")
        return hanging(f"{palette.paint(pod, 'bold')} is {says}: ", _why_pending(found))
    name = palette.paint(pod, "bold")
    if state == FITS:
        would = palette.paint(str(found.get("wouldGoTo")), "bold", "green")
        return [f"{name} would go to {would}: {plural(found['feasible'], 'node')} of {nodes} fit"]
    if state == GONE:
        return hanging(f"{name} is {palette.paint('gone', 'bold')}: ", message)
    return [f"{name} is on {palette.paint(found['node'], 'bold', 'green')}"]


def _why_pending(found: Document) -> str:
    reason: str
    if found.get("gates"):
        gates = found["gates"]
        return f"held by scheduling {'gate' if len(gates) == 1 else 'gates'} {', '.join(gates)}"
    queue = found.get("queue") or {}
    group = found.get("group")
    if group and is_waiting(group):
        return why_it_waits(group)
    if queue.get("place") == "waiting":
        return f"{queue['node']} is reserved, {', '.join(queue['heldBy']) or 'Permit'} holds it"
    if not found["funnel"]:
        reason = found["message"]
        return reason
    if found.get("tooLarge"):
        return too_large(found["tooLarge"])
    if len(found["funnel"]) == 1 and not found["funnel"][0]["examples"]:
        reason = found["funnel"][0]["reason"]
        return reason
    return f"no node fits (0 of {found['nodes']})"


def too_large(short: Sequence[Document]) -> str:
    """That no node could take the pod, even if it were empty."""
    parts = [
        f"{one['resource']} {one['wanted']}, largest {one['largest']}"
        if one["largest"] != "0"
        else f"{one['resource']} {one['wanted']}, no node has any"
        for one in short
    ]
    return f"larger than any node ({'; '.join(parts)})"


def _situation(found: Document, now: float) -> list[str]:
    """Where the pod is, since when and until when, and where all this is known from."""
    parts = []
    if found["attempts"]:
        last = found["attempts"][-1]
        then = moment(last["time"])
        ago = "" if then is None or not now else f", {span(now - then)} ago"
        parts.append(f"attempt {last['number']}{ago}")
    queue = found.get("queue") or {}
    place = _PLACES.get(queue.get("place", ""), "")
    until = moment(queue.get("until"))
    if place and until is not None and now:
        ahead = span(until - now)
        place += f" until in {ahead}" if queue["place"] == "backoff" else f", at the latest in {ahead}"
    if place:
        parts.append(place)
    return joined([*parts, f"source: {found['source']}"])


def _notes(found: Document) -> list[str]:
    """What else is known of a pod that changes what all the rest means."""
    lines: list[str] = []
    for plugin, said in ((found.get("queue") or {}).get("heldBy") or {}).items():
        lines += hanging(f"{plugin}: ", said) if said else [plugin]
    node = found.get("nominatedNode")
    if node and found["state"] != "placed":
        lines += hanging("", f"nominated to {node}{_leaving(found)}")
    gone = found.get("evictions")
    if gone and gone["victims"] and not (node and found["state"] != "placed"):
        lines += hanging("", f"evicted {names(gone['victims'], 4)}{_from(gone)} for it")
    if found["state"] == PENDING:
        for one in found.get("claims") or ():
            lines += hanging(f"claim {one['claim']}: ", one["text"])
    evicted = found.get("evicted")
    if evicted and found["state"] != GONE:
        lines += hanging("", _evicted(evicted))
    return lines


def _leaving(found: Document) -> str:
    victims = (found.get("evictions") or {}).get("victims")
    return f", waits for {names(victims, 4)} to leave (evicted for it)" if victims else ""


def _evicted(evicted: Document) -> str:
    by = f" for {names(evicted['by'], 3)}" if evicted.get("by") else ""
    why = f": {evicted['message']}" if evicted.get("message") else ""
    return f"evicted{by}{why}"


def _from(made: Document) -> str:
    return f" from {middle(made['node'], NAME)}" if made.get("node") else ""


def _why_evicted(found: Document, palette: Palette) -> list[str]:
    """Why the victims were these, where a running scheduler remembers."""
    for about in ("evictions", "evicted"):
        done = (found.get(about) or {}).get("preemption")
        if done:
            lines = was_done(done, palette)
            return lines if found["state"] == GONE else ["", *lines]
    return []


# A pod that waits


def _pending(found: Document, all_nodes: bool, palette: Palette) -> list[str]:
    lines = _funnel(found, palette)
    group = found.get("group")
    if group and is_waiting(group) and group["changes"]:
        lines += ["", palette.paint("Any one of these would place its group", "bold")]
        lines += [f"  {what_would_help({'changes': [change]}, 1)}" for change in group["changes"]]
    if group and is_waiting(group) and found.get("wouldGoTo"):
        count = plural(found["feasible"], "node")
        return [*lines, "", f"The pod alone would fit: {count} of {found['nodes']} would take it."]
    if found.get("wouldGoTo"):
        would, count = found["wouldGoTo"], plural(found["feasible"], "node")
        text = f"Let go it would be placed on {would}: {count} of {found['nodes']} fit."
        return [*lines, "", text] if lines else [text]
    if found["nearMisses"]:
        lines += ["", palette.paint("Closest: only one thing in the way", "bold")]
        lines += _near_misses(found["nearMisses"], all_nodes)
    if found["changes"]:
        lines += ["", palette.paint("Any one of these would place it (each tried on this state)", "bold")]
        lines += _changes(found["changes"], palette)
    elif found["funnel"]:
        lines += ["", "No single change was found that would place it."]
    if found.get("preemption"):
        lines += ["", *would_do(found["preemption"], palette)]
    if found["wakes"]:
        lines += ["", *joined(sentence(found["wakes"], found["funnel"]), "Wakes it: ")]
    return lines


def _funnel(found: Document, palette: Palette) -> list[str]:
    funnel = found["funnel"]
    if not funnel:
        return []
    figures = [str(found["nodes"]), *(f"-{line['nodes']}" for line in funnel)]
    width = max(map(len, figures))
    plugins = max(len(line["plugin"]) for line in funnel)
    lines = [f"{found['nodes']:>{width}} nodes"]
    for line in funnel:
        figure = palette.paint(f"-{line['nodes']}".rjust(width), "red")
        lines += hanging(f"{figure}  {line['plugin']:<{plugins}}  ", line["reason"])
    rest = f"= {found['feasible']}".rjust(width)
    return [*lines, palette.paint(rest, "green") if found["feasible"] else rest]


def _near_misses(misses: Sequence[Document], all_nodes: bool) -> list[str]:
    shown = misses if all_nodes else misses[:NEAREST]
    names = [middle(miss["node"], NAME) for miss in shown]
    width, about = max(map(len, names)), min(max(len(miss["missing"]) for miss in shown), NAME)
    lines: list[str] = []
    for name, miss in zip(names, shown, strict=True):
        begin = f"  {name:<{width}}  {miss['missing']:<{about}}  "
        lines += hanging(begin, miss["detail"])
    if len(shown) < len(misses):
        more = f"(+{len(misses) - len(shown)} more: --all-nodes)"
        fits = len(lines[-1]) + 2 + len(more) <= WIDTH
        lines = [*lines[:-1], f"{lines[-1]}  {more}"] if fits else [*lines, f"  {more}"]
    return lines


def _changes(changes: Sequence[Document], palette: Palette) -> list[str]:
    width = min(max(len(change["text"]) for change in changes), 52)
    arrow = palette.paint("→", "green")
    lines: list[str] = []
    for change in changes:
        text = change["text"]
        begin = f"  {text:<{width}}  {arrow} "
        if len(text) > width:
            lines += hanging("  ", text)
            begin = f"  {'':<{width}}  {arrow} "
        lines += hanging(begin, _outcome(change))
    return lines


def _outcome(change: Document) -> str:
    if change.get("victims"):
        return f"{middle(change['node'], NAME)}; {names(change['victims'], 2)} would go"
    node = middle(change["node"], NAME)
    return node if change["nodes"] == 1 else f"{node}, {plural(change['nodes'], 'node')} fit"


# A pod that is placed, or could be


def _chosen(found: Document, palette: Palette) -> list[str]:
    lines = _funnel(found, palette)
    if not found.get("wouldGoTo"):
        return [*lines, *(["", found["message"]] if found["message"] else [])]
    if found["scores"]:
        lines += ["", f"Points of the best {len(found['scores'])} (score times weight)"]
        lines += indented(_scores(found))
    lines += ["", *hanging("", _why(found))]
    if found["state"] != FITS:
        lines += hanging("", _again(found))
    return lines[1:] if not lines[0] else lines


def _scores(found: Document) -> list[str]:
    best, weights = found["scores"], found["weights"]
    old = found.get("priorities") or {}
    room = (WIDTH - 2 - max(map(len, (*weights, "plugin"))) - 8) // len(best) - 2
    chosen = found["wouldGoTo"]
    names = [
        middle(f"> {one['node']}" if one["node"] == chosen else one["node"], max(room, 8)) for one in best
    ]
    rows = [
        (
            f"{old[plugin]} ({plugin})" if plugin in old else plugin,
            str(weight),
            *(_points(one["plugins"][plugin], weight, plugin in old) for one in best),
        )
        for plugin, weight in weights.items()
    ]
    rows.append(("total", "", *(str(one["total"]) for one in best)))
    return table(("plugin", "weight", *names), rows, numeric=range(1, len(names) + 2))


def _points(points: int, weight: int, old_scale: bool) -> str:
    if not old_scale:
        return str(points)
    from stowplan.scheduler.plugins.legacy.names import old_points

    return f"{points} ({old_points(points // weight):g})"


def _why(found: Document) -> str:
    node = found["wouldGoTo"]
    if found["ties"] > 1:
        return f"{found['ties']} nodes are equally good; ties are broken at random."
    if found["decidedBy"]:
        runner_up, by = found["scores"][1]["node"], found["decidedBy"]
        return f"{node} is ahead of {runner_up} by {plural(found['margin'], 'point')}, most of it from {by}."
    return f"{node} is the only node that fits."


def _again(found: Document) -> str:
    would = found["wouldGoTo"]
    if would == found["node"]:
        return "It would be placed there again now."
    if found["message"]:
        return f"{found['message']}; it would go to {would}."
    own = next((one["total"] for one in found["scores"] if one["node"] == found["node"]), None)
    lead = "" if own is None else f", {plural(found['scores'][0]['total'] - own, 'point')} better"
    return f"It would go to {would} now{lead}."
