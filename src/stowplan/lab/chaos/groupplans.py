"""Plans by seed, some with pod groups: gangs that compete for the nodes, and what users do to them."""

from random import Random
from typing import Final

import msgspec

from stowplan.lab.chaos import objects
from stowplan.lab.chaos.objects import NAMESPACE, Body
from stowplan.lab.chaos.plan import ChaosAction, ChaosPlan, make_plan
from stowplan.testing.builders import ZONE

WITH_GROUPS: Final = 0.25
"""The share of plans with pod groups."""
_SIZES: Final = (1, 2, 3, 3, 4, 5, 8)
_CREATED_TOGETHER: Final = 0.7
"""The share of groups whose members come at the same moment."""


def plan_of(seed: int, *, groups: bool | None = None, claims: bool = False) -> ChaosPlan:
    """The plan of a seed, the same on every machine.

    With `groups` or `claims` it has pod groups or resource claims for any seed.
    """
    plan = make_plan(Random(f"plan {seed}"), seed, claims=claims)
    if groups is None:
        groups = Random(f"whether groups {seed}").random() < WITH_GROUPS
    return with_groups(plan) if groups else plan


def with_groups(plan: ChaosPlan) -> ChaosPlan:
    """The same plan with groups and their members. Random choices are those of the plan's seed."""
    rng = Random(f"groups {plan.seed}")
    actions = _GroupActionMaker(rng, plan).all()
    return msgspec.structs.replace(plan, groups=True, actions=actions)


class _GroupActionMaker:
    """Adds the actions on groups and their members."""

    def __init__(self, rng: Random, plan: ChaosPlan) -> None:
        self._rng = rng
        self._plan = plan
        self._actions = list(plan.actions)
        self._members: dict[str, list[str]] = {}
        self._began: dict[str, float] = {}

    def all(self) -> tuple[ChaosAction, ...]:
        for number in range(self._rng.randrange(1, 6)):
            self._add_group(f"gang-{number}")
        for _ in range(self._rng.randrange(0, 14)):
            self._add_incident()
        return tuple(sorted(self._actions, key=lambda action: action.at))

    def _add_group(self, name: str) -> None:
        rng = self._rng
        size = rng.choice(_SIZES)
        minimum = None if rng.random() < 0.2 else rng.choice((size, size, size, max(1, size - 1), 1))
        body = random_group(rng, name, minimum)
        at = self._early(0.5)
        self._began[name] = at
        self._add(at if rng.random() < 0.8 else self._later(), "put-group", name, body)
        scheduler = rng.choice(self._plan.profiles)
        together = rng.random() < _CREATED_TOGETHER
        template = objects.random_pod(rng, name, scheduler)
        for number in range(size):
            pod = f"{name}-{number}"
            self._members.setdefault(name, []).append(pod)
            made = template if together else objects.random_pod(rng, pod, scheduler)
            self._add(at if together else self._later(), "create-pod", pod, _member(made, pod, body))

    def _add_incident(self) -> None:
        rng = self._rng
        group = rng.choice(list(self._members))
        pod = rng.choice(self._members[group])
        kind = rng.randrange(12)
        if kind < 3:
            self._add(self._later(), "delete-pod", pod, {"grace": rng.choice((None, 0, 3))})
        elif kind < 5:
            self._add(self._later(), "recreate-pod", pod, self._again(group, pod))
        elif kind < 6:
            self._add(self._later(), "bind-pod", pod, {"node": f"node-{rng.randrange(8)}"})
        elif kind < 7:
            self._add(self._later(), "ungate", pod)
        elif kind < 8:
            self._add(self._later(), "set-min-count", group, {"minCount": rng.choice((1, 2, 3, 9))})
        elif kind < 9:
            at = self._later()
            self._add(at, "delete-group", group)
            again = at + rng.random() * (self._plan.end - at)
            self._add(round(again, 3), "put-group", group, random_group(rng, group, rng.choice((None, 1, 2))))
        else:
            at = self._began[group] or 0.001 if rng.random() < 0.7 else self._later()
            self._add(at, "change-leader")

    def _again(self, group: str, pod: str) -> Body:
        """A member in the place of one of the same name."""
        made = [action for action in self._actions if action.what == "create-pod" and action.name == pod]
        put = [action for action in self._actions if action.what == "put-group" and action.name == group]
        fresh = objects.random_pod(self._rng, pod, made[0].body["spec"]["schedulerName"])
        return _member(fresh, pod, put[0].body)

    def _add(self, at: float, what: str, name: str = "", body: Body | None = None) -> None:
        self._actions.append(ChaosAction(at, what, name, body or {}))

    def _early(self, share: float) -> float:
        return 0.0 if self._rng.random() < share else self._later()

    def _later(self) -> float:
        return round(self._rng.random() * self._plan.end, 3)


def random_group(rng: Random, name: str, minimum: int | None) -> Body:
    """A PodGroup; without a minimum its policy is basic."""
    spec: Body = {
        "schedulingPolicy": {"basic": {}} if minimum is None else {"gang": {"minCount": minimum}},
        "priority": rng.choice(objects.PRIORITIES),
        "disruptionMode": rng.choice(({"single": {}}, {"all": {}})),
    }
    if rng.random() < 0.3:
        spec["schedulingConstraints"] = {"topology": [{"key": ZONE}]}
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


def _member(pod: Body, name: str, group: Body) -> Body:
    """A pod as a member of a group, with the group's priority."""
    spec = {
        **{field: value for field, value in pod["spec"].items() if field != "preemptionPolicy"},
        "priority": group["spec"]["priority"],
        "schedulingGroup": {"podGroupName": group["metadata"]["name"]},
    }
    return {"metadata": {**pod["metadata"], "name": name}, "spec": spec}
