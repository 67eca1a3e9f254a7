"""What preemption would do for a group of pods: who has to go, who stays, or why it does not help."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from stowplan.explain.layout import PLAIN, Palette, hanging, middle, plural

if TYPE_CHECKING:
    from stowplan.scheduler.framework.explanation import UnitOutcome
    from stowplan.scheduler.framework.pod_groups.placement import PodGroupPostFilterResult

Document = Mapping[str, Any]

UNITS: Final = 5
"""How many of those that have to go are shown with the reason."""
NAME: Final = 40

_PREFIX: Final = "pod group preemption: "


def group_preemption(result: "PodGroupPostFilterResult", priority: int) -> dict[str, Any]:
    """A group's search for victims as plain data; `priority` is the group's.

    What goes together or not at all is a unit: a pod, or a group with `disruptionMode: all`.
    """
    search = result.preemption
    found: dict[str, Any] = {
        "helps": result.status.is_success,
        "message": result.status.message.removeprefix(_PREFIX),
        "priority": priority,
        "victims": [pod.key for pod in result.victims],
        "candidates": 0 if search is None else search.candidates,
        "units": [] if search is None else [_unit(one) for one in search.victims],
        "victimUnits": 0 if search is None else search.victim_units,
        "spared": [] if search is None else [_unit(one) for one in search.spared],
        "pdbViolations": 0 if search is None else search.violations,
        "withoutVictims": None if search is None else search.without_victims or None,
    }
    return found


def _unit(one: "UnitOutcome") -> dict[str, Any]:
    return {
        "unit": one.unit,
        "priority": one.priority,
        "pods": one.pods,
        "pdbViolations": one.violations,
        "why": one.problem or None,
    }


# As text


def group_would_do(found: Document, palette: Palette = PLAIN) -> list[str]:
    """What preemption would do for a group that waits."""
    if found["helps"] and found["victimUnits"]:
        return _victims(found, palette)
    return hanging("Preemption does not help: ", _why_not(found))


def _why_not(found: Document) -> str:
    if found["helps"]:
        return str(found["message"])
    if found["withoutVictims"]:
        gone = plural(found["candidates"], "pod or group", "pods and groups")
        return (
            f"even without the {gone} of lower priority than {found['priority']}: {found['withoutVictims']}"
        )
    if not found["candidates"] and found["message"].startswith("No preemption victims"):
        return f"no pod or group of lower priority than {found['priority']}"
    return str(found["message"]).removesuffix(".")


def _victims(found: Document, palette: Palette) -> list[str]:
    pods = plural(len(found["victims"]), "pod")
    lines = [palette.paint(f"Preemption would make room: {pods} would go", "bold")]
    units: Sequence[Document] = found["units"]
    for one in units[:UNITS]:
        lines += hanging(f"  {_name(one)}: ", one["why"])
    more = found["victimUnits"] - len(units[:UNITS])
    if more:
        lines.append(f"  and {more} more")
    if found["pdbViolations"]:
        lines.append(f"  {plural(found['pdbViolations'], 'pod')} of them against a PodDisruptionBudget")
    left = found["candidates"] - found["victimUnits"]
    if left:
        examples = ", ".join(_name(one) for one in found["spared"][:2])
        stay = "stays: there is room for it" if left == 1 else "stay: there is room for them"
        others = "the only other one" if left == 1 else f"the {left} others"
        lines += hanging("  ", f"{others} of lower priority ({examples}{', …' if left > 2 else ''}) {stay}")
    return lines


def _name(one: Document) -> str:
    kind, _, name = one["unit"].partition("/")
    shown = f"{_KINDS.get(kind, kind)} {middle(name, NAME)}" if name else kind
    return shown if kind == "pod" else f"{shown} ({plural(one['pods'], 'pod')})"


_KINDS: Final = {"podgroup": "group", "compositepodgroup": "composite group"}
