"""Making plans: from a source of chance to everything that will happen in a run."""

from itertools import pairwise
from random import Random
from typing import Final

from stowplan.chaos import objects, storageplanning
from stowplan.chaos.plan import OTHERS, OURS, Action, Body, ExtenderPlan, Plan, Weather
from stowplan.testing.builders import ZONE

WITH_VOLUMES: Final = 0.4
"""The share of plans that are about volumes too."""

_UPDATES = ("label-pod", "label-pod", "tolerate", "ungate", "ungate", "finish")
_NODE_CHANGES = (
    "cordon",
    "uncordon",
    "uncordon",
    "taint",
    "untaint",
    "untaint",
    "label-node",
    "resize",
    "resize",
    "beat",
    "delete-node",
    "put-node",
    "put-node",
)


def plan_of(seed: int) -> Plan:
    """The plan of a seed, the same on every machine."""
    return make_plan(Random(f"plan {seed}"), seed)


def make_plan(rng: Random, seed: int) -> Plan:
    """A plan. `seed` is for the chance during the run."""
    ends = rng.choice((20.0, 40.0, 90.0))
    profiles = OURS if rng.random() < 0.4 else OURS[:1]
    plan = Plan(
        seed=seed,
        ends=ends,
        history=rng.choice((3, 20, 8192, 8192)),
        buffer=rng.choice((3, 50, 8192)),
        profiles=profiles,
        moody=tuple(name for name in profiles if rng.random() < 0.6),
        extenders=_extenders(rng),
        weather=_weather(rng, ends),
        actions=_Days(rng, ends, profiles).all(),
    )
    return storageplanning.with_volumes(rng, plan) if rng.random() < WITH_VOLUMES else plan


def _extenders(rng: Random) -> tuple[ExtenderPlan, ...]:
    if rng.random() < 0.7:
        return ()
    return tuple(
        ExtenderPlan(
            name=f"extender-{number}",
            salt=rng.randrange(100),
            ignorable=rng.random() < 0.4,
            filters=rng.random() < 0.8,
            binds=rng.random() < 0.3,
            preempts=rng.random() < 0.5,
        )
        for number in range(rng.choice((1, 1, 2)))
    )


def _weather(rng: Random, ends: float) -> tuple[Weather, ...]:
    """Up to three spells in a row, some of them fine."""
    moments = sorted(_moment(rng, ends) for _ in range(rng.choice((0, 1, 2))))
    borders = [0.0, *moments, ends]
    return tuple(_spell(rng, begins, until) for begins, until in pairwise(borders) if begins < until)


def _spell(rng: Random, begins: float, ends: float) -> Weather:
    def chance(highest: float) -> float:
        return round(rng.random() * highest, 3) if rng.random() < 0.5 else 0.0

    return Weather(
        begins=begins,
        ends=ends,
        refused=chance(0.5),
        lost=chance(0.5),
        cut=chance(0.4),
        forgotten=chance(0.3),
        lifetime=rng.choice((None, None, 0.3, 3.0)),
        delay=rng.choice((0.0, 0.0, 0.05, 1.0, 6.0)),
        plugins=chance(1.2),
        extenders=chance(0.8),
    )


def _moment(rng: Random, ends: float) -> float:
    return round(rng.random() * ends, 3)


class _Days:
    """What people do to the cluster in a run."""

    def __init__(self, rng: Random, ends: float, profiles: tuple[str, ...]) -> None:
        self._rng = rng
        self._ends = ends
        self._profiles = profiles
        self._nodes = [f"node-{number}" for number in range(rng.randrange(3, 9))]
        self._pods = [f"pod-{number:02}" for number in range(rng.randrange(10, 31))]
        self._actions: list[Action] = []

    def all(self) -> tuple[Action, ...]:
        for node in self._nodes:
            self._do(self._early(0.8), "put-node", node, objects.random_node(self._rng, node))
        for pod in self._pods:
            self._do(self._early(0.4), "create-pod", pod, self._pod(pod))
        for _ in range(self._rng.randrange(5, 75)):
            self._incident()
        return tuple(sorted(self._actions, key=lambda action: action.at))

    def _do(self, at: float, what: str, name: str = "", body: Body | None = None) -> None:
        self._actions.append(Action(at, what, name, body or {}))

    def _early(self, share: float) -> float:
        """Before the scheduler starts, or some time later."""
        return 0.0 if self._rng.random() < share else self._later()

    def _later(self) -> float:
        return _moment(self._rng, self._ends)

    def _pod(self, name: str) -> Body:
        rng = self._rng
        outside = rng.random() < 0.1
        body = objects.random_pod(rng, name, OTHERS if outside else rng.choice(self._profiles))
        if outside and rng.random() < 0.7:
            body["spec"]["nodeName"] = rng.choice(self._nodes)
        return body

    def _incident(self) -> None:
        rng = self._rng
        kind = rng.randrange(20)
        if kind < 5:
            self._change_node()
        elif kind < 9:
            self._change_pod()
        elif kind < 12:
            self._do(
                self._later(), "delete-pod", rng.choice(self._pods), {"grace": rng.choice((None, None, 0, 3))}
            )
        elif kind < 14:
            name = rng.choice(self._pods)
            self._do(self._later(), "recreate-pod", name, self._pod(name))
        elif kind < 16:
            self._do(self._later(), "bind-pod", rng.choice(self._pods), {"node": rng.choice(self._nodes)})
        elif kind < 17:
            self._do(self._later(), "hang-up")
        elif kind < 18:
            self._do(self._later(), "restart")
        else:
            name = f"budget-{rng.randrange(3)}"
            self._do(self._later(), "put-budget", name, objects.random_budget(rng, name))

    def _change_pod(self) -> None:
        rng = self._rng
        what, name = rng.choice(_UPDATES), rng.choice(self._pods)
        body: Body = {}
        if what == "label-pod":
            body = {"app": rng.choice(objects.APPS)}
        elif what == "finish":
            body = {"phase": rng.choice(("Running", "Succeeded", "Failed"))}
        self._do(self._later(), what, name, body)

    def _change_node(self) -> None:
        rng = self._rng
        what, name = rng.choice(_NODE_CHANGES), rng.choice(self._nodes)
        body: Body = {}
        if what == "put-node":
            body = objects.random_node(rng, name)
        elif what == "taint":
            body = objects.random_taint(rng)
        elif what == "label-node":
            body = rng.choice(({ZONE: rng.choice(objects.ZONES)}, {"disk": rng.choice(objects.DISKS)}))
        elif what == "resize":
            body = objects.random_room(rng)
        self._do(self._later(), what, name, body)
