"""Plans with volumes: claims for some of the pods, and people and controllers who get in their way."""

from random import Random
from typing import Final

import msgspec

from stowplan.chaos import storageobjects
from stowplan.chaos.plan import Action, Body, Plan, StoragePlan, Weather

_CREATING: Final = ("create-pod", "recreate-pod")
_USERS: Final = 0.6
"""The share of pods that have volumes."""


def with_volumes(rng: Random, plan: Plan) -> Plan:
    """The same plan with volumes in it."""
    days = _StorageDays(rng, plan)
    return msgspec.structs.replace(
        plan,
        storage=StoragePlan(bind_timeout=rng.choice((2, 5, 15))),
        weather=tuple(_spell(rng, weather) for weather in plan.weather),
        actions=days.all(),
    )


def _spell(rng: Random, weather: Weather) -> Weather:
    return msgspec.structs.replace(
        weather,
        making=rng.choice((0.0, 0.5, 3.0, 20.0)),
        unmade=rng.choice((0.0, 0.0, 0.3, 0.9)),
        controllers=rng.choice((0.0, 0.0, 0.3, 8.0)),
    )


class _StorageDays:
    """What people do to classes, volumes and claims."""

    def __init__(self, rng: Random, plan: Plan) -> None:
        self._rng = rng
        self._plan = plan
        self._nodes = sorted({action.name for action in plan.actions if action.what == "put-node"})
        self._claims = [f"claim-{number}" for number in range(rng.randrange(2, 9))]
        self._volumes = [f"disk-{number}" for number in range(rng.randrange(1, 8))]
        self._actions = [self._with_use(action) for action in plan.actions]

    def all(self) -> tuple[Action, ...]:
        rng = self._rng
        for body in storageobjects.classes(rng):
            self._do(self._early(0.9), "put-class", body)
        for volume in self._volumes:
            self._do(self._early(0.6), "put-volume", storageobjects.random_volume(rng, volume, self._nodes))
        for claim in self._claims:
            self._do(self._early(0.6), "put-claim", storageobjects.random_claim(rng, claim))
        for _ in range(rng.randrange(0, 16)):
            self._incident()
        return tuple(sorted(self._actions, key=lambda action: action.at))

    def _with_use(self, action: Action) -> Action:
        """A pod that is made in an action, with volumes if it is to have some."""
        if action.what not in _CREATING or self._rng.random() >= _USERS:
            return action
        spec = {**action.body["spec"], "volumes": storageobjects.random_use(self._rng, self._claims)}
        return msgspec.structs.replace(action, body={**action.body, "spec": spec})

    def _incident(self) -> None:
        rng = self._rng
        kind = rng.randrange(12)
        claim, volume = rng.choice(self._claims), rng.choice(self._volumes)
        if kind < 2:
            self._do(self._later(), "delete-claim", name=claim)
        elif kind < 4:
            self._do(self._later(), "put-claim", storageobjects.random_claim(rng, claim))
        elif kind < 6:
            self._do(self._later(), "replace-claim", storageobjects.random_claim(rng, claim))
        elif kind < 7:
            self._do(self._later(), "delete-volume", name=volume)
        elif kind < 8:
            self._do(self._later(), "drop-volume", name=volume)
        elif kind < 10:
            self._do(self._later(), "free-volume", name=volume)
        else:
            self._volumes.append(f"disk-{len(self._volumes)}")
            body = storageobjects.random_volume(rng, self._volumes[-1], self._nodes)
            self._do(self._later(), "put-volume", body)

    def _do(self, at: float, what: str, body: Body | None = None, name: str = "") -> None:
        known = name or (body or {}).get("metadata", {}).get("name", "")
        self._actions.append(Action(at, what, known, body or {}))

    def _early(self, share: float) -> float:
        return 0.0 if self._rng.random() < share else self._later()

    def _later(self) -> float:
        return round(self._rng.random() * self._plan.ends, 3)
