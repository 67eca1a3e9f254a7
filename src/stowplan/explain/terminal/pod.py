"""A pod's document for a terminal: the answer first, then the evidence, then what to do, on one screen."""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from stowplan.explain.document.pod import Change, NearMiss, PodDocument
from stowplan.explain.layout import (
    PLAIN,
    WIDTH,
    Palette,
    cleaned,
    hanging,
    indented,
    joined,
    middle,
    safe,
    shortened,
    table,
)
from stowplan.explain.stages import LATE
from stowplan.explain.states import FITS, GONE, PENDING, PLACED
from stowplan.explain.terminal.preemption import was_done, would_do

NEAREST: Final = 5
"""Groups of nodes that are shown."""
_HEREDOC: Final = "<<'EOF'"
"""A command with one begins in the first column: its end would not be found otherwise."""
_NO_CHANGE: Final = "No change was found that would place it."
NAME: Final = 40
"""How long names in a column may be."""


def render(found: PodDocument, *, all_nodes: bool = False, palette: Palette = PLAIN) -> str:
    """The explanation as text."""
    commands = [change.command for change in found.changes]
    found = cleaned(found)
    changes = zip(found.changes, commands, strict=True)
    found = replace(found, changes=tuple(replace(one, command=command) for one, command in changes))
    lines = [
        *_headline(found, palette),
        *incomplete_lines(found.incomplete, palette),
        *_stopped(found, palette),
        *joined(found.situation),
        *_notes(found),
        "",
    ]
    if found.state == PENDING:
        lines += _pending(found, all_nodes, palette)
    elif found.state != GONE and (all_nodes or not _is_stopped_late(found)):
        lines += _chosen(found, palette)
    lines += _why_evicted(found, palette)
    return "\n".join(line.rstrip() for line in lines).rstrip() + "\n"


def _is_stopped_late(found: PodDocument) -> bool:
    """True for a pod that does not run on its node: why that one was chosen says nothing about it."""
    return found.stopped_at in LATE or found.not_yet is not None


def _headline(found: PodDocument, palette: Palette) -> list[str]:
    """The headline, with the pod and its state or node in colour."""
    says = found.headline.removeprefix(found.pod)
    if found.state == PLACED or found.state == FITS:
        verb = " is on " if found.state == PLACED else " would go to "
        node = (found.node if found.state == PLACED else found.would_go_to) or ""
        if not says.startswith(f"{verb}{node}"):
            return hanging(palette.paint(found.pod, "bold"), says)
        begin = f"{palette.paint(found.pod, 'bold')}{verb}{palette.paint(node, 'bold', 'green')}"
        return hanging(begin, says.removeprefix(f"{verb}{node}"))
    styles = ("bold", "yellow") if found.state == PENDING else ("bold",)
    begin = f" is {found.state}: "
    state = palette.paint(found.state, *styles)
    return hanging(f"{palette.paint(found.pod, 'bold')} is {state}: ", says.removeprefix(begin))


def incomplete_lines(incomplete: Sequence[str], palette: Palette) -> Iterator[str]:
    """Gaps of the answer, before everything else."""
    for line in incomplete:
        yield from hanging(palette.paint("incomplete: ", "yellow"), line)


def _stopped(found: PodDocument, palette: Palette) -> Iterator[str]:
    """Remedy for a pod that is stopped outside of scheduling."""
    outside = not found.is_ours or found.gates or found.missing or found.waits_for_group
    if found.remedy and (found.state != PENDING or outside):
        yield from hanging(palette.paint("helped by: ", "green"), found.remedy)


def _notes(found: PodDocument) -> Iterator[str]:
    """Notes on a pod that change the meaning of the rest."""
    keys = [] if found.evictions is None else [found.evictions.node or "", *found.evictions.victims]
    keys += [] if found.evicted is None else found.evicted.by
    for note in found.notes:
        text = shortened(note.text, keys, NAME)
        begin = f"{note.about}: " if note.about and text else note.about
        yield from hanging(begin, text) if text else [begin]


def _why_evicted(found: PodDocument, palette: Palette) -> list[str]:
    """Why the victims were these, where a running scheduler remembers."""
    for eviction in (found.evictions, found.evicted):
        if eviction is not None and eviction.preemption is not None:
            lines = was_done(eviction.preemption, palette)
            return lines if found.state == GONE else ["", *lines]
    return []


# A pod that waits


def _pending(found: PodDocument, all_nodes: bool, palette: Palette) -> list[str]:
    """Remedies, the nodes by what rules them out, then the evidence."""
    if found.missing and not all_nodes:
        return []
    parts = [_helps(found, palette), _nodes(found, palette)]
    if all_nodes and found.near_misses:
        title = palette.paint("Nodes with one thing in the way", "bold")
        parts.append([title, *_near_misses(found.near_misses)])
    parts.append(_funnel(found, palette))
    if found.would_go_to is not None:
        parts.append([*found.why])
    else:
        parts.append([] if found.preemption is None else would_do(found.preemption, palette))
        parts.append(joined(found.awaits, "Wakes it: ") if found.awaits else [])
    lines: list[str] = []
    for part in parts:
        lines += ["", *part] if lines and part else part
    return lines


def _helps(found: PodDocument, palette: Palette) -> list[str]:
    """The changes that place a pod or its group, with the commands that make them."""
    group, lines = found.group, []
    if group is not None and found.waits_for_group and group.changes:
        lines = [palette.paint("Any one of these would place its group", "bold")]
        return lines + [
            f"  {one.text} in {one.domain}" if one.domain else f"  {one.text}" for one in group.changes
        ]
    held = found.gates or found.would_go_to is not None or not found.is_ours
    if not found.changes and (held or not found.funnel):
        return []
    for advice in found.advice:
        lines += hanging(palette.paint("helped by: ", "green"), advice)
    if found.changes:
        which = "This" if len(found.changes) == 1 else "Any one of these"
        lines.append(palette.paint(f"{which} would place it (each tried on this state)", "bold"))
        lines += _changes(found.changes, palette)
    elif not lines and found.nominated_node is not None:
        lines.append(f"{found.remedy}.")
    elif not lines and found.too_large:
        lines += hanging(palette.paint("helped by: ", "green"), found.remedy)
    elif not lines:
        lines.append(_NO_CHANGE)
    for text in found.untried:
        lines += hanging("not tried: ", text)
    return lines


def _nodes(found: PodDocument, palette: Palette) -> list[str]:
    """Groups of nodes by what rules them out, those that the pod means first."""
    lines: list[str] = []
    meant = [one for one in found.groups_of_nodes if one.meant and one.form != "cluster"]
    for title, groups in (
        ("In the way", meant if len(meant) > 1 else []),
        ("Other nodes with one thing in the way", [one for one in found.groups_of_nodes if not one.meant]),
    ):
        if not groups:
            continue
        lines += [*([""] if lines else []), palette.paint(title, "bold")]
        names = [middle(one.name, NAME) for one in groups[:NEAREST]]
        width = max(map(len, names))
        for name, one in zip(names, groups, strict=False):
            lines += hanging(f"  {name:<{width}}  ", one.text)
        if len(groups) > NEAREST:
            more = sum(one.nodes for one in groups[NEAREST:])
            lines.append(f"  (+{more} more nodes: --all-nodes)")
    return lines


def _funnel(found: PodDocument, palette: Palette) -> list[str]:
    funnel = found.funnel
    if not funnel:
        return []
    figures = [str(found.nodes), *(f"-{line.nodes}" for line in funnel)]
    width = max(map(len, figures))
    plugins = max(len(line.plugin) for line in funnel)
    lines = [f"{found.nodes:>{width}} nodes"]
    for line in funnel:
        figure = palette.paint(f"-{line.nodes}".rjust(width), "red")
        lines += hanging(f"{figure}  {line.plugin:<{plugins}}  ", line.reason)
    rest = f"= {found.feasible}".rjust(width)
    return [*lines, palette.paint(rest, "green") if found.feasible else rest]


def _near_misses(misses: Sequence[NearMiss]) -> list[str]:
    names = [middle(miss.node, NAME) for miss in misses]
    width, about = max(map(len, names)), min(max(len(miss.missing) for miss in misses), NAME)
    lines: list[str] = []
    for name, miss in zip(names, misses, strict=True):
        lines += hanging(f"  {name:<{width}}  {miss.missing:<{about}}  ", miss.detail)
    return lines


def _changes(changes: Sequence[Change], palette: Palette) -> list[str]:
    """Changes with where the pod would go then; commands are not broken, so that they can be copied."""
    width = min(max(len(change.text) for change in changes), 52)
    arrow = palette.paint("→", "green")
    lines: list[str] = []
    for change in changes:
        begin = f"  {change.text:<{width}}  {arrow} "
        if len(change.text) > width:
            lines += hanging("  ", change.text)
            begin = f"  {'':<{width}}  {arrow} "
        lines += hanging(begin, shortened(change.outcome, (change.node, *change.victims), NAME))
        for line in safe(change.command).splitlines():
            lines.append(line if _HEREDOC in change.command else f"    {line}")
    return lines


# A pod that is placed, or could be


def _chosen(found: PodDocument, palette: Palette) -> list[str]:
    lines = _funnel(found, palette)
    if found.scores:
        lines += ["", f"Points of the best {len(found.scores)} (score times weight)"]
        lines += indented(_scores(found))
    if found.why:
        lines.append("")
    for sentence in found.why:
        lines += hanging("", sentence)
    return lines[1:] if lines and not lines[0] else lines


def _scores(found: PodDocument) -> list[str]:
    best, weights, old = found.scores, found.weights, found.priorities
    room = (WIDTH - 2 - max(map(len, (*weights, "plugin"))) - 8) // len(best) - 2
    names = [
        middle(f"> {one.node}" if one.node == found.would_go_to else one.node, max(room, 8)) for one in best
    ]
    rows = [
        (
            f"{old[plugin]} ({plugin})" if plugin in old else plugin,
            str(weight),
            *(_points(one.plugins[plugin], weight, plugin in old) for one in best),
        )
        for plugin, weight in weights.items()
    ]
    rows.append(("total", "", *(str(one.total) for one in best)))
    return table(("plugin", "weight", *names), rows, numeric=range(1, len(names) + 2))


def _points(points: int, weight: int, old_scale: bool) -> str:
    if not old_scale:
        return str(points)
    from stowplan.scheduler.plugins.legacy.names import old_points

    return f"{points} ({old_points(points // weight):g})"
