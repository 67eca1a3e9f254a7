"""Small random clusters that are rather full, and pods that want in."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from scheduler.plugins.defaultpreemption.preempting import budget, started
from stowplan.api.workloads import PodDisruptionBudget
from stowplan.testing import NodeBuilder, PodBuilder, node, pod
from stowplan.testing.builders import HOSTNAME, ZONE

GPU = "example.com/gpu"
APPS = ["a", "b", "c"]
HOURS = [None, 1, 2, 3]

World = tuple[list[NodeBuilder], list[PodBuilder], list[PodDisruptionBudget]]
"""Nodes, the pods on them, disruption budgets."""


@st.composite
def nodes(draw: st.DrawFn, name: str) -> NodeBuilder:
    made = node(name).capacity(
        cpu=draw(st.integers(2, 4)), memory=f"{draw(st.integers(2, 5))}Gi", pods=draw(st.integers(3, 6))
    )
    if draw(st.booleans()):
        made = made.capacity({GPU: draw(st.integers(0, 2))})
    if draw(st.integers(0, 3)):
        made = made.zone(draw(st.sampled_from(["one", "two"])))
    return made.taint("t") if not draw(st.integers(0, 7)) else made


@st.composite
def running(draw: st.DrawFn, name: str, on: str, hermits: bool) -> PodBuilder:
    made = pod(name).priority(draw(st.integers(-1, 3))).on(on).requests(cpu=draw(st.integers(0, 2)))
    made = made.requests(memory=f"{draw(st.integers(0, 2))}Gi")
    if draw(st.integers(0, 4)):
        made = made.labels(app=draw(st.sampled_from(APPS)))
    if not draw(st.integers(0, 3)):
        made = made.requests({GPU: 1})
    if not draw(st.integers(0, 4)):
        made = made.port(80, host_port=draw(st.sampled_from([80, 81])))
    if hermits and not draw(st.integers(0, 3)):
        made = made.anti_affinity(
            draw(st.sampled_from([HOSTNAME, ZONE])), {"app": draw(st.sampled_from(APPS))}
        )
    if not draw(st.integers(0, 5)):
        made = made.terminating()
    hour = draw(st.sampled_from(HOURS))
    return started(made, None if hour is None else f"2025-01-01T0{hour}:00:00Z")


@st.composite
def wanting(draw: st.DrawFn, name: str) -> PodBuilder:
    """A pod that may want any of the things that make filters look at other pods."""
    made = pod(name).priority(draw(st.integers(1, 4))).requests(cpu=draw(st.integers(1, 3)))
    made = made.requests(memory=f"{draw(st.integers(0, 2))}Gi").labels(app=draw(st.sampled_from(APPS)))
    wish = draw(st.integers(0, 9))
    if wish == 0:
        made = made.requests({GPU: draw(st.integers(1, 2))})
    elif wish == 1:
        made = made.port(80, host_port=80)
    elif wish == 2:
        made = made.anti_affinity(
            draw(st.sampled_from([HOSTNAME, ZONE])), {"app": draw(st.sampled_from(APPS))}
        )
    elif wish == 3:
        made = made.affinity(draw(st.sampled_from([HOSTNAME, ZONE])), {"app": draw(st.sampled_from(APPS))})
    elif wish == 4:
        selects = draw(st.sampled_from([{"app": "a"}, {}]))
        made = made.spread(draw(st.sampled_from([HOSTNAME, ZONE])), selects)
    if not draw(st.integers(0, 3)):
        made = made.tolerates("t")
    return made


def budgets() -> SearchStrategy[list[PodDisruptionBudget]]:
    return st.lists(
        st.builds(
            lambda app, number, allowed, disrupted: budget(
                f"budget-{number}", {"app": app}, allowed, disrupted
            ),
            st.sampled_from(APPS),
            st.integers(0, 2),
            st.integers(-1, 1),
            st.lists(st.sampled_from(["r0", "r1", "r2", "r3"]), max_size=1),
        ),
        max_size=3,
    )


@st.composite
def worlds(draw: st.DrawFn) -> World:
    names = [f"n{number}" for number in range(draw(st.integers(2, 4)))]
    made = [draw(nodes(name)) for name in names]
    hermits = not draw(st.integers(0, 3))
    pods = [
        draw(running(f"r{number}", name, hermits))
        for place, name in enumerate(names)
        for number in range(5 * place, 5 * place + draw(st.integers(2, 5)))
    ]
    return made, pods, draw(budgets())
