"""How a Deployment goes from old pods to new ones: how many each of its ReplicaSets is to have."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from stowplan.api.requests import Json
from stowplan.embedded.controllers.objects import (
    annotations_of,
    count_in,
    created_at,
    name_of,
    spec_of,
    status_of,
)
from stowplan.embedded.controllers.templates import share

DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
MOST: Final = "deployment.kubernetes.io/max-replicas"


@dataclass(slots=True)
class Part:
    """A ReplicaSet of a Deployment: how many pods it is to have, and how many of them are available."""

    obj: Json
    replicas: int
    available: int

    @classmethod
    def of(cls, replica_set: Json) -> "Part":
        replicas = count_in(spec_of(replica_set), "replicas", 1)
        return cls(replica_set, replicas, count_in(status_of(replica_set), "availableReplicas"))

    @property
    def age(self) -> tuple[float, str]:
        return created_at(self.obj), name_of(self.obj)


@dataclass(frozen=True, slots=True)
class Strategy:
    """How many pods are wanted, how many more there may be for a while, how many may be missing."""

    replicas: int
    surge: int
    unavailable: int
    recreate: bool = False

    @classmethod
    def of(cls, deployment: Json) -> "Strategy":
        spec = spec_of(deployment)
        replicas = count_in(spec, "replicas", 1)
        given = spec.get("strategy") or {}
        if given.get("type") == "Recreate":
            return cls(replicas, 0, 0, recreate=True)
        rolling = given.get("rollingUpdate") or {}
        surge = share(rolling.get("maxSurge"), replicas, "25%", round_up=True)
        unavailable = share(rolling.get("maxUnavailable"), replicas, "25%", round_up=False)
        if surge == 0 and unavailable == 0:
            unavailable = 1
        return cls(replicas, surge, min(unavailable, replicas))

    @property
    def most(self) -> int:
        """The most pods there may be at a time."""
        return self.replicas + self.surge if self.replicas else 0

    @property
    def least_available(self) -> int:
        return 0 if self.recreate else self.replicas - self.unavailable


def total(parts: Sequence[Part]) -> int:
    return sum(part.replicas for part in parts)


def grow_new(strategy: Strategy, new: Part, old: Sequence[Part]) -> int:
    """How many pods the newest set is to have now."""
    if new.replicas >= strategy.replicas or strategy.recreate:
        return strategy.replicas
    room = strategy.replicas + strategy.surge - total([new, *old])
    return new.replicas + min(max(room, 0), strategy.replicas - new.replicas)


def shrink_old(strategy: Strategy, new: Part, old: Sequence[Part]) -> dict[str, int]:
    """How many pods old sets are to have now, by name: first those go that are not available anyway."""
    wanted = {name_of(part.obj): part.replicas for part in old}
    spare = total([new, *old]) - strategy.least_available - (new.replicas - new.available)
    if spare <= 0:
        return wanted
    by_age = sorted(old, key=lambda part: part.age)
    for part in by_age:
        gone = max(min(spare, part.replicas - part.available), 0)
        wanted[name_of(part.obj)] -= gone
        spare -= gone
    extra = sum(part.available for part in (new, *old)) - strategy.least_available
    for part in by_age:
        gone = max(min(extra, wanted[name_of(part.obj)]), 0)
        wanted[name_of(part.obj)] -= gone
        extra -= gone
    return wanted


def is_scaling(strategy: Strategy, parts: Sequence[Part]) -> bool:
    """Whether the Deployment was given another size since its sets were last told."""
    return any(
        part.replicas > 0
        and DESIRED in annotations_of(part.obj)
        and annotations_of(part.obj)[DESIRED] != str(strategy.replicas)
        for part in parts
    )


def scale(strategy: Strategy, new: Part | None, old: Sequence[Part]) -> dict[str, int]:
    """How many pods each set is to have when the Deployment's size changes, by name.

    One set alone takes all. In the middle of a rollout everybody takes a part of it, as large as its own.
    """
    parts = [*old, *([new] if new is not None else [])]
    active = [part for part in parts if part.replicas > 0]
    if len(active) <= 1:
        one = active[0] if active else new or max(parts, key=lambda part: part.age, default=None)
        return {} if one is None else {name_of(one.obj): strategy.replicas}
    if new is not None and _is_saturated(strategy, new):
        return {name_of(part.obj): 0 for part in old}
    if strategy.recreate:
        return {}
    return _in_proportion(strategy, active)


def _is_saturated(strategy: Strategy, new: Part) -> bool:
    return new.replicas == strategy.replicas == new.available and annotations_of(new.obj).get(DESIRED) == str(
        strategy.replicas
    )


def _in_proportion(strategy: Strategy, active: Sequence[Part]) -> dict[str, int]:
    add = strategy.most - total(active)
    ordered = sorted(active, key=lambda part: part.age, reverse=add > 0)
    ordered.sort(key=lambda part: -part.replicas)
    wanted: dict[str, int] = {}
    added = 0
    for part in ordered:
        fraction = _fraction(strategy, part) if add else 0
        left = add - added
        step = min(fraction, left) if add > 0 else max(fraction, left)
        wanted[name_of(part.obj)] = part.replicas + step
        added += step
    first = name_of(ordered[0].obj)
    wanted[first] = max(wanted[first] + add - added, 0)
    return wanted


def _fraction(strategy: Strategy, part: Part) -> int:
    """How much a set grows or shrinks when the whole does."""
    if strategy.replicas == 0:
        return -part.replicas
    before = annotations_of(part.obj).get(MOST, "")
    if not before.isdigit() or int(before) == 0:
        return 0
    exact = part.replicas * strategy.most / int(before)
    return int(exact + 0.5) - part.replicas
