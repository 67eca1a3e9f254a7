"""What preemption did or would do for a pod: where room is made, whose it is, and why not elsewhere."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from stowplan.explain.layout import PLAIN, Palette, hanging, middle, plural

if TYPE_CHECKING:
    from stowplan.scheduler.framework.explanation import Choice, RuledOut
    from stowplan.scheduler.framework.interface import PostFilterResult

Document = Mapping[str, Any]

_PREFIX: Final = "preemption: "
"""How the message about preemption begins."""
NAME: Final = 40
"""How long names may be."""


@dataclass(frozen=True, slots=True)
class Preempting:
    """What a search for victims came to: the node and the pods that have to go, or why there are none.

    `choice` tells why this candidate and no other, `not_candidates` why the other nodes were none: that is
    found out only where somebody asks, so a decision that was recorded does not have it.
    """

    node: str
    victims: tuple[str, ...]
    candidates: int
    message: str
    nodes: int = 0
    choice: "Choice | None" = None
    not_candidates: "Sequence[RuledOut]" = ()

    @classmethod
    def of(
        cls, result: "PostFilterResult", nodes: int, not_candidates: "Sequence[RuledOut]" = ()
    ) -> "Preempting":
        return cls(
            result.nominated_node or "",
            tuple(pod.key for pod in result.victims),
            len(result.candidates),
            result.status.message,
            nodes,
            result.choice,
            not_candidates,
        )

    def document(self) -> dict[str, Any]:
        """The search as plain data; with `not_candidates` the funnel adds up to the number of nodes."""
        choice = self.choice
        funnel = [*self.not_candidates, *(() if choice is None else choice.ruled_out())]
        found: dict[str, Any] = {
            "node": self.node or None,
            "victims": list(self.victims),
            "candidates": self.candidates,
            "message": self.message,
            "nodes": self.nodes,
            "funnel": [_ruled_out(one) for one in funnel],
        }
        if choice is not None:
            found["chosenBy"] = {"criterion": choice.criterion, "text": choice.text}
            found["spared"] = {"pods": list(choice.spared), "count": choice.spared_count}
        return found


def _ruled_out(one: "RuledOut") -> dict[str, Any]:
    return {
        "criterion": one.criterion or None,
        "reason": one.reason,
        "nodes": one.nodes,
        "examples": [
            {"node": node.node, "text": node.text, "victims": list(node.victims)} for node in one.examples
        ],
    }


# As text


def names(keys: Sequence[str], most: int) -> str:
    """Pods by name, so many at most."""
    shown = [middle(key, NAME) for key in keys[:most]]
    more = len(keys) - len(shown)
    if more:
        return f"{', '.join(shown)} and {more} more"
    return " and ".join(part for part in (", ".join(shown[:-1]), shown[-1]) if part)


def would_do(tried: Document, palette: Palette = PLAIN) -> list[str]:
    """What preemption would do for a pod that waits, and why not on other nodes."""
    if tried["node"]:
        going = f"Preemption would make room on {middle(tried['node'], NAME)}: "
        return [*hanging(going, f"{names(tried['victims'], 4)} would go"), *_funnel(tried, palette)]
    if tried.get("funnel"):
        return [palette.paint("Preemption does not help", "bold"), *_funnel(tried, palette)]
    why = _without_counts(tried["message"])
    return hanging("Preemption does not help: ", why) if why else []


def was_done(done: Document, palette: Palette = PLAIN) -> list[str]:
    """Why pods of this node were evicted and none elsewhere."""
    if not done.get("chosenBy"):
        return []
    node = middle(done["node"], NAME)
    return [palette.paint(f"Why pods of {node} were evicted", "bold"), *_funnel(done, palette)]


def _without_counts(message: str) -> str:
    said = message.partition(_PREFIX)[2].removesuffix(".")
    return said.partition(": ")[2] if said.startswith("0/") else said


def _funnel(tried: Document, palette: Palette) -> list[str]:
    """From the nodes, or from the candidates where only these are known, to the chosen one."""
    funnel = tried["funnel"]
    complete = tried["nodes"] and tried["nodes"] == _accounted(tried)
    first = plural(tried["nodes"], "node") if complete else plural(tried["candidates"], "candidate node")
    figures = [first.partition(" ")[0], *(f"-{line['nodes']}" for line in funnel)]
    width = max(*map(len, figures), len("= 1") if tried["node"] else 0)
    lines = [f"  {figures[0]:>{width}} {first.partition(' ')[2]}"]
    for figure, line in zip(figures[1:], funnel, strict=True):
        shown = palette.paint(figure.rjust(width), "red")
        lines += hanging(f"  {shown}  ", f"{line['reason']}{_examples(line)}")
    if tried["node"]:
        lines.append(f"  {'= 1':>{width}}  {middle(tried['node'], NAME)}{_chosen_by(tried)}")
        lines += _spared(tried)
    return lines


def _accounted(tried: Document) -> int:
    ruled_out: int = sum(line["nodes"] for line in tried["funnel"])
    return ruled_out + bool(tried["node"])


def _examples(line: Document) -> str:
    shown = [
        f"{middle(one['node'], NAME)}: {one['text']}" if one["text"] else middle(one["node"], NAME)
        for one in line["examples"]
    ]
    separator = "; " if line["criterion"] else ", "
    more = f"{separator}…" if len(shown) < line["nodes"] else ""
    return f" ({separator.join(shown)}{more})" if shown else ""


def _chosen_by(tried: Document) -> str:
    return f": {tried['chosenBy']['text']}" if tried.get("chosenBy") else ""


def _spared(tried: Document) -> list[str]:
    spared = tried.get("spared")
    if not spared or not spared["count"]:
        return []
    listed = [*spared["pods"], *[""] * (spared["count"] - len(spared["pods"]))]
    stay = "stays: there is room for it" if spared["count"] == 1 else "stay: there is room for them"
    return hanging("  ", f"{names(listed, len(spared['pods']))} {stay}")
