"""How fast an autoscaler may scale: stabilization windows, policies, and the bounds of its spec."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Final, NamedTuple

from stowplan.api.quantity import quantity_of
from stowplan.api.requests import Json
from stowplan.localcluster.controllers.autoscaling.replicacalculator import DEFAULT_TOLERANCE, Tolerances
from stowplan.localcluster.objects.fields import spec_of

DOWNSCALE_STABILIZATION: Final = 300.0
_MAX: Final = 2**31 - 1
_DEFAULT_RULES: Final[Mapping[str, Json]] = {
    "scaleUp": {
        "stabilizationWindowSeconds": 0,
        "selectPolicy": "Max",
        "policies": [
            {"type": "Pods", "value": 4, "periodSeconds": 15},
            {"type": "Percent", "value": 100, "periodSeconds": 15},
        ],
    },
    "scaleDown": {
        "stabilizationWindowSeconds": DOWNSCALE_STABILIZATION,
        "selectPolicy": "Max",
        "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
    },
}


class Limited(NamedTuple):
    """A number of replicas within what is allowed, and why it is that."""

    replicas: int
    reason: str
    message: str


_WITHIN: Final = ("DesiredWithinRange", "the desired count is within the acceptable range")
_TOO_MANY: Final = ("TooManyReplicas", "the desired replica count is more than the maximum replica count")
_TOO_FEW: Final = ("TooFewReplicas", "the desired replica count is less than the minimum replica count")
_UP_LIMIT: Final = (
    "ScaleUpLimit",
    "the desired replica count is increasing faster than the maximum scale rate",
)
_DOWN_LIMIT: Final = (
    "ScaleDownLimit",
    "the desired replica count is decreasing faster than the maximum scale rate",
)
_UP_STABILIZED: Final = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
)
_DOWN_STABILIZED: Final = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
)


def rules_of(hpa: Json, direction: str) -> Json:
    """The scaling rules of an autoscaler in a direction, `scaleUp` or `scaleDown`, with their defaults."""
    given = (spec_of(hpa).get("behavior") or {}).get(direction) or {}
    return {
        **_DEFAULT_RULES[direction],
        **{name: value for name, value in given.items() if value is not None},
    }


def tolerances_of(hpa: Json) -> Tolerances:
    def tolerance(direction: str) -> float:
        given = rules_of(hpa, direction).get("tolerance")
        return DEFAULT_TOLERANCE if given is None else quantity_of(given).milli_value() / 1000

    return Tolerances(tolerance("scaleDown"), tolerance("scaleUp"))


@dataclass(slots=True)
class ScalingHistory:
    """Recent recommendations and changes of an autoscaler: pairs of a time and a number of replicas."""

    recommendations: list[tuple[float, int]] = field(default_factory=list)
    ups: list[tuple[float, int]] = field(default_factory=list)
    downs: list[tuple[float, int]] = field(default_factory=list)

    def begin(self, replicas: int, now: float) -> None:
        """Take the size that is found at first for a recommendation."""
        if not self.recommendations:
            self.recommendations = [(now, replicas)]

    def scaled(self, hpa: Json, before: int, after: int, now: float) -> None:
        """Remember a change for as long as a policy looks back."""
        if "behavior" not in spec_of(hpa):
            return
        up = after > before
        longest = max(_periods(rules_of(hpa, "scaleUp" if up else "scaleDown")), default=0)
        events = self.ups if up else self.downs
        events[:] = [one for one in events if one[0] >= now - longest]
        events.append((now, abs(after - before)))

    def stabilized(self, hpa: Json, current: int, desired: int, now: float) -> Limited:
        """The recommendation that is followed, after those within the stabilization windows."""
        if "behavior" not in spec_of(hpa):
            recent = [replicas for time, replicas in self._since(now - DOWNSCALE_STABILIZATION)]
            self._recommend(desired, now, DOWNSCALE_STABILIZATION)
            return Limited(max([desired, *recent]), *_DOWN_STABILIZED)
        windows = [
            float(rules_of(hpa, direction)["stabilizationWindowSeconds"])
            for direction in ("scaleUp", "scaleDown")
        ]
        lowest = min([desired, *(replicas for _, replicas in self._after(now - windows[0]))])
        highest = max([desired, *(replicas for _, replicas in self._after(now - windows[1]))])
        self._recommend(desired, now, max(windows))
        followed = min(max(current, lowest), highest)
        return Limited(followed, *(_UP_STABILIZED if desired >= current else _DOWN_STABILIZED))

    def _since(self, time: float) -> Iterable[tuple[float, int]]:
        return (one for one in self.recommendations if one[0] >= time)

    def _after(self, time: float) -> Iterable[tuple[float, int]]:
        return (one for one in self.recommendations if one[0] > time)

    def _recommend(self, desired: int, now: float, window: float) -> None:
        self.recommendations = [*self._since(now - window), (now, desired)]

    def limited(self, hpa: Json, current: int, desired: int, least: int, now: float) -> Limited:
        """A recommendation within the bounds of the spec and the rates of the policies."""
        most = int(spec_of(hpa)["maxReplicas"])
        if "behavior" not in spec_of(hpa):
            return _limited_plainly(current, desired, least, most)
        if desired > current:
            limit = max(self._limit(rules_of(hpa, "scaleUp"), current, 1, now), current)
            allowed, why = (limit, _UP_LIMIT) if most > limit else (most, _TOO_MANY)
            if desired > allowed:
                return Limited(allowed, *why)
        elif desired < current:
            limit = min(self._limit(rules_of(hpa, "scaleDown"), current, -1, now), current)
            allowed, why = (limit, _DOWN_LIMIT) if least < limit else (least, _TOO_FEW)
            if desired < allowed:
                return Limited(allowed, *why)
        return Limited(desired, *_WITHIN)

    def _limit(self, rules: Json, current: int, sign: int, now: float) -> int:
        """The limit that policies set, up (sign 1) or down (-1)."""
        if rules["selectPolicy"] == "Disabled":
            return current
        proposed: list[int] = []
        for policy in rules["policies"]:
            begin = now - policy["periodSeconds"]
            started = current - _total(self.ups, begin) + _total(self.downs, begin)
            if policy["type"] == "Pods":
                proposed.append(started + sign * policy["value"])
            elif sign > 0:
                proposed.append(min(ceil(started * (1 + policy["value"] / 100)), _MAX))
            else:
                proposed.append(int(started * (1 - policy["value"] / 100)))
        furthest = (rules["selectPolicy"] == "Min") == (sign < 0)
        return max(proposed, default=current) if furthest else min(proposed, default=current)


def _limited_plainly(current: int, desired: int, least: int, most: int) -> Limited:
    fastest = max(2 * current, 4)
    allowed, why = (fastest, _UP_LIMIT) if most > fastest else (most, _TOO_MANY)
    if desired < least:
        return Limited(least, *_TOO_FEW)
    return Limited(allowed, *why) if desired > allowed else Limited(desired, *_WITHIN)


def _periods(rules: Json) -> Sequence[Any]:
    return [policy["periodSeconds"] for policy in rules["policies"]]


def _total(events: Iterable[tuple[float, int]], begin: float) -> int:
    return sum(change for time, change in events if time > begin)
