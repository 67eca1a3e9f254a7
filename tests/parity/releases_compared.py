"""The same scenarios under two releases, and under the older one with a single thing of the newer.

What differs between the releases comes from what their data names: a gate with another default, the table of
plugins, a behaviour. `changes` has each of them alone.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path

from stowplan.api.feature_gates import FeatureGates
from stowplan.releases import Release, differences
from stowplan.verify.decisions import facts_of
from stowplan.verify.recording import read_lines
from stowplan.verify.replay import Replay, Scenario, decode_scenario

DECIDING = frozenset({"rules", "preempting", "devices"})
"""Areas of behaviour that decisions follow from."""

AFTERWARDS = frozenset(
    {
        "activates_preemptor",
        "result_label",
        "missing_special_claim",
        "reserve_skips_allocated",
        "in_flight_until",
    }
)
"""Choices in these areas about what is done once a decision is made."""

ALONE = {"OpportunisticBatching": False}
"""Recordings were made with every pod evaluated on its own."""

GOLDEN = Path(__file__).parents[1] / "golden-1.37"
SCENARIOS = {
    "nodeaffinity": (3,),
    "new137-csi-prevent": (0,),
    "new137-dra-alloc": (0, 7, 15, 23),
    "new137-image-volumes": (0,),
    "new137-ns-selector": (0,),
    "new137-pdb-overlap": (1, 2),
    "new137-resize": (0,),
    "new137-storage-scoring": (0,),
    "new137-taintrules": (0,),
}
"""The scenarios of each recording that are compared, by their place."""

ATTEMPTS = 6
"""So many attempts of each are compared."""

Fact = tuple[str, str]
"""Where a fact was stated (scenario and attempt), and its subject."""


def scenarios() -> Iterator[Scenario]:
    for family, places in SCENARIOS.items():
        for place, line in enumerate(islice(read_lines(GOLDEN / f"{family}.jsonl.gz"), max(places) + 1)):
            if place in places:
                yield decode_scenario(line.data)


def changes(old: Release, new: Release) -> dict[str, FeatureGates]:
    """The older release with one thing of the newer, by its name."""
    plugins = replace(old, plugins=new.plugins, points=new.points)
    found = {"order and extension points of plugins": FeatureGates(ALONE, plugins)}
    for name, gate in new.gates.items():
        if gate.has_effect and name in old.gates and old.gates[name].default != gate.default:
            found[f"gate {name}"] = FeatureGates({**ALONE, name: gate.default}, old)
    for _, choice in differences(old.behaviour, new.behaviour):
        if choice.area not in DECIDING or choice.name in AFTERWARDS:
            continue
        area = replace(getattr(old.behaviour, choice.area), **{choice.name: choice.value})
        changed = replace(old, behaviour=replace(old.behaviour, **{choice.area: area}))
        found[f"{choice.area}.{choice.name}"] = FeatureGates(ALONE, changed)
    return found


def facts(under_way: Iterable[Scenario], gates: FeatureGates) -> dict[Fact, object]:
    """All facts of scenarios as a release has them. After each attempt the recorded outcome takes effect."""
    found: dict[Fact, object] = {}
    for scenario in under_way:
        replay = Replay(scenario, gates=gates)
        for position, expected in enumerate(scenario.expected[:ATTEMPTS]):
            attempt = replay.attempt(expected).attempt
            if attempt is not None:
                where = f"{scenario.name} {expected.pod} {expected.attempt}"
                found |= {(where, subject): fact for subject, fact in facts_of(attempt).items()}
            replay.settle(expected, position)
    return found


def differing(some: Mapping[Fact, object], others: Mapping[Fact, object]) -> set[Fact]:
    """The facts that differ, or that only one side states."""
    return {fact for fact in some.keys() | others.keys() if some.get(fact) != others.get(fact)}
