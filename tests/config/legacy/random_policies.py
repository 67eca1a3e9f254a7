"""Random clusters and random Policies made of names that have an exact equivalent."""

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from stowplan.api.meta import Object
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.scheduler.plugins.legacy.names import PREDICATES, PRIORITIES, OldName
from stowplan.testing import Cluster, cluster
from stowplan.testing import cluster_strategies as some
from stowplan.testing.builders import ZONE
from stowplan.testing.cluster_strategies import RACK

labels = st.sampled_from(["disk", "gen", RACK, ZONE])
points = st.lists(st.integers(0, 100), min_size=1, max_size=3, unique=True).flatmap(
    lambda at: st.tuples(*(st.tuples(st.just(one), st.integers(0, 10)) for one in sorted(at)))
)
ARGUMENTS: dict[str, st.SearchStrategy[Any]] = {
    "serviceAffinity": st.builds(lambda label: {"labels": [label]}, labels),
    "labelsPresence": st.builds(
        lambda label, presence: {"labels": [label], "presence": presence}, labels, st.booleans()
    ),
    "serviceAntiAffinity": st.builds(lambda label: {"label": label}, labels),
    "labelPreference": st.builds(
        lambda label, presence: {"label": label, "presence": presence}, labels, st.booleans()
    ),
    "requestedToCapacityRatioArguments": st.builds(
        lambda shape, names: {
            "shape": [{"utilization": at, "score": score} for at, score in shape],
            "resources": [{"name": name, "weight": index + 1} for index, name in enumerate(names)],
        },
        points,
        st.sampled_from([[], ["cpu"], ["memory", "cpu"], [some.GPU, "cpu"]]),
    ),
}


def exact(known: dict[str, OldName], release: str) -> list[str]:
    """Names whose plugins decide by the very rule the name stood for."""
    return [name for name, entry in known.items() if entry.as_of(release).exact]


@st.composite
def entries(draw: st.DrawFn, /, known: dict[str, OldName], release: str, **more: Any) -> dict[str, Any]:
    entry = known[draw(st.sampled_from(exact(known, release)))]
    made: dict[str, Any] = {"name": entry.name, **{name: draw(value) for name, value in more.items()}}
    if entry.argument:
        made["argument"] = {entry.argument: draw(ARGUMENTS[entry.argument])}
    return made


def by_name(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each once; what is one plugin in the end too."""
    seen: dict[str, dict[str, Any]] = {}
    for one in found:
        spread = "SelectorSpreadPriority" if one["name"] == "ServiceSpreadingPriority" else one["name"]
        seen.setdefault(spread, one)
    return list(seen.values())


@st.composite
def policies(draw: st.DrawFn, release: str) -> dict[str, Any]:
    weights = st.sampled_from([1, 1, 2, 5, 100])
    predicates = st.lists(entries(PREDICATES, release), max_size=5).map(by_name)
    priorities = st.lists(entries(PRIORITIES, release, weight=weights), max_size=4).map(by_name)
    return {
        "kind": "Policy",
        "apiVersion": "v1",
        "predicates": draw(predicates),
        "priorities": draw(priorities),
        "hardPodAffinitySymmetricWeight": draw(st.sampled_from([0, 1, 50])),
        "alwaysCheckAllPredicates": draw(st.booleans()),
    }


@dataclass(frozen=True)
class Scene:
    """Nodes, pods on them, objects around them, and a pod that wants a node."""

    nodes: tuple[Node, ...]
    placed: tuple[Pod, ...]
    around: tuple[Object, ...]
    wanting: Pod

    def under(self, config: Any) -> Cluster:
        return cluster(self.nodes, self.placed, objects=self.around, config=config)


def _named(pod: Pod, name: str, node: str = "") -> Pod:
    metadata = replace(pod.metadata, name=name, uid=name)
    spec = replace(pod.spec, node_name=node, scheduler_name="default-scheduler")
    return replace(pod, metadata=metadata, spec=spec)


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    nodes = draw(st.lists(some.any_node, min_size=2, max_size=7, unique_by=lambda node: node.name))
    names = st.sampled_from([node.name for node in nodes])
    placed = draw(st.lists(st.tuples(some.pods(), names), max_size=6))
    return Scene(
        tuple(nodes),
        tuple(_named(pod, f"p{index}", node) for index, (pod, node) in enumerate(placed)),
        tuple(draw(st.lists(some.around, max_size=4))),
        _named(draw(some.pods()), "wanting"),
    )
