"""Preemption as text: where room is made, by whose eviction, and why not elsewhere."""

from typing import Final

from stowplan.explain.document.preemption import GroupPreemption, Preemption, PreemptionLine
from stowplan.explain.layout import PLAIN, Palette, hanging, middle, plural, shortened
from stowplan.explain.sentences.preemption import unit_name

NAME: Final = 40
"""How long names may be."""
UNITS: Final = 5
"""How many of those that have to go for a group are shown with the reason."""


def would_do(tried: Preemption, palette: Palette = PLAIN) -> list[str]:
    """Preemption for a pending pod, and the reasons against other nodes."""
    if not tried.headline:
        return []
    says = shortened(tried.headline, (tried.node or "", *tried.victims), NAME)
    if tried.node:
        return [*_sentence(says), *_funnel(tried, palette)]
    return [palette.paint(says, "bold"), *_funnel(tried, palette)] if tried.funnel else _sentence(says)


def was_done(done: Preemption, palette: Palette = PLAIN) -> list[str]:
    """Why pods of this node were evicted and none elsewhere."""
    if not done.headline or not done.node or done.chosen_by is None:
        return []
    says = shortened(done.headline, (done.node,), NAME)
    return [palette.paint(says, "bold"), *_funnel(done, palette)]


def _sentence(says: str) -> list[str]:
    """A sentence, continued below what follows its colon."""
    head, colon, rest = says.partition(": ")
    return hanging(f"{head}{colon}", rest)


def _funnel(tried: Preemption, palette: Palette) -> list[str]:
    """From the nodes, or from the candidates where only these are known, to the chosen one."""
    funnel = tried.funnel
    accounted = sum(line.nodes for line in funnel) + bool(tried.node)
    complete = tried.nodes and tried.nodes == accounted
    first = plural(tried.nodes, "node") if complete else plural(tried.candidates, "candidate node")
    figures = [first.partition(" ")[0], *(f"-{line.nodes}" for line in funnel)]
    width = max(*map(len, figures), len("= 1") if tried.node else 0)
    lines = [f"  {figures[0]:>{width}} {first.partition(' ')[2]}"]
    for figure, line in zip(figures[1:], funnel, strict=True):
        shown = palette.paint(figure.rjust(width), "red")
        lines += hanging(f"  {shown}  ", f"{line.reason}{_examples(line)}")
    if tried.node:
        chosen = "" if tried.chosen_by is None else f": {tried.chosen_by.text}"
        lines.append(f"  {'= 1':>{width}}  {middle(tried.node, NAME)}{chosen}")
        if tried.spared is not None and tried.spared.headline:
            lines += hanging("  ", shortened(tried.spared.headline, tried.spared.pods, NAME))
    return lines


def _examples(line: PreemptionLine) -> str:
    shown = [
        f"{middle(one.node, NAME)}: {one.text}" if one.text else middle(one.node, NAME)
        for one in line.examples
    ]
    separator = "; " if line.criterion else ", "
    more = f"{separator}…" if len(shown) < line.nodes else ""
    return f" ({separator.join(shown)}{more})" if shown else ""


# For a group


def group_would_do(found: GroupPreemption, palette: Palette = PLAIN) -> list[str]:
    """Preemption for a pending group."""
    if not found.helps or not found.victim_units:
        return _sentence(found.headline)
    lines = [palette.paint(found.headline, "bold")]
    for one in found.units[:UNITS]:
        name = shortened(unit_name(one), (one.unit.partition("/")[2],), NAME)
        lines += hanging(f"  {name}: ", one.why or "")
    more = found.victim_units - len(found.units[:UNITS])
    if more:
        lines.append(f"  and {more} more")
    named = [one.unit.partition("/")[2] for one in found.spared]
    for text in found.details:
        lines += hanging("  ", shortened(text, named, NAME))
    return lines
