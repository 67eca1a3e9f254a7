"""The sentences about preemption: who would be evicted or was, and why these pods."""

from typing import Final

from msgspec.structs import replace

from stowplan.explain.document.preemption import Eviction, GroupPreemption, Preemption, VictimUnit
from stowplan.explain.layout import plural
from stowplan.explain.sentences.words import NAMED, names

_PREEMPTION: Final = "preemption: "
"""How the scheduler's message about preemption begins."""
_GROUP_PREEMPTION: Final = "pod group preemption: "


def would_preempt(found: Preemption) -> str:
    """Preemption for a pending pod; empty if there is nothing to say about it."""
    if found.node:
        return f"Preemption would make room on {found.node}: {names(found.victims, NAMED)} would go"
    if found.funnel:
        return "Preemption does not help"
    said = found.message.partition(_PREEMPTION)[2].removesuffix(".")
    reason = said.partition(": ")[2] if said.startswith("0/") else said
    return f"Preemption does not help: {reason}" if reason else ""


def did_preempt(found: Preemption) -> str:
    """Reason for the victims of a preemption that was carried out."""
    return f"Why pods of {found.node} were evicted" if found.chosen_by is not None else ""


def stay(count: int) -> str:
    """That so many pods stay."""
    return "stays: there is room for it" if count == 1 else "stay: there is room for them"


def made_room(found: Eviction) -> str:
    """Pods evicted for a pod."""
    place = f" from {found.node}" if found.node else ""
    return f"evicted {names(found.victims, NAMED)}{place} for it" if found.victims else ""


def was_evicted(found: Eviction) -> str:
    """For whom a pod was evicted."""
    preemptors = f" for {names(found.by, NAMED - 1)}" if found.by else ""
    return f"evicted{preemptors}{f': {found.message}' if found.message else ''}"


def told_group_preemption(found: GroupPreemption) -> GroupPreemption:
    """The search of a group for victims, with its sentences."""
    message = found.message.removeprefix(_GROUP_PREEMPTION)
    found = replace(found, message=message)
    if not found.helps or not found.victim_units:
        return replace(found, headline=f"Preemption does not help: {_why_no_room(found)}")
    headline = f"Preemption would make room: {plural(len(found.victims), 'pod')} would go"
    details = []
    if found.pdb_violations:
        details.append(f"{plural(found.pdb_violations, 'pod')} of them against a PodDisruptionBudget")
    left = found.candidates - found.victim_units
    if left:
        examples = ", ".join(unit_name(one) for one in found.spared[:2])
        others = "the only other one" if left == 1 else f"the {left} others"
        details.append(f"{others} of lower priority ({examples}{', …' if left > 2 else ''}) {stay(left)}")
    return replace(found, headline=headline, details=tuple(details))


def _why_no_room(found: GroupPreemption) -> str:
    if found.helps:
        return found.message
    lower = f"of lower priority than {found.priority}"
    if found.without_victims:
        gone = plural(found.candidates, "pod or group", "pods and groups")
        return f"even without the {gone} {lower}: {found.without_victims}"
    if not found.candidates and found.message.startswith("No preemption victims"):
        return f"no pod or group {lower}"
    return found.message.removesuffix(".")


_UNITS: Final = {"podgroup": "group", "compositepodgroup": "composite group"}


def unit_name(one: VictimUnit) -> str:
    """Pods that go together, by name: `group ml/train (16 pods)`."""
    kind, _, name = one.unit.partition("/")
    shown = f"{_UNITS.get(kind, kind)} {name}" if name else kind
    return shown if kind == "pod" else f"{shown} ({plural(one.pods, 'pod')})"
