"""Taints of devices that evict pods: whom they concern, from when on, and what a rule reports about it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from stowplan.api.requests import Json
from stowplan.api.rules.taints import NO_EXECUTE
from stowplan.localcluster.controllerruntime.informers import Index
from stowplan.localcluster.objects.fields import spec_of, status_of, time_of, uid_of

NO_EFFECT: Final = "None"
EVICTION_IN_PROGRESS: Final = "EvictionInProgress"


class TaintedDevice(NamedTuple):
    """A device by what names it in the whole cluster."""

    driver: str
    pool: str
    name: str


class DeviceTaintEviction(NamedTuple):
    """When pods that use a claim have to go, and which rules say so (besides taints in slices)."""

    at: float
    rules: frozenset[str]

    def joined(self, other: "DeviceTaintEviction | None") -> "DeviceTaintEviction":
        return (
            self if other is None else DeviceTaintEviction(min(self.at, other.at), self.rules | other.rules)
        )


def allocated_devices(claim: Json) -> Sequence[Json]:
    """The devices that a claim has, as its allocation names them."""
    devices = (status_of(claim).get("allocation") or {}).get("devices") or {}
    return devices.get("results") or ()


def device_of(result: Json) -> TaintedDevice:
    return TaintedDevice(result.get("driver", ""), result.get("pool", ""), result.get("device", ""))


def pool_key(driver: str, pool: str) -> str:
    return f"{driver} {pool}"


def pool_of_slice(slice: Json) -> list[str]:
    spec = spec_of(slice)
    return [pool_key(spec.get("driver", ""), (spec.get("pool") or {}).get("name", ""))]


def pools_of_claim(claim: Json) -> list[str]:
    found = (device_of(result) for result in allocated_devices(claim))
    return list(dict.fromkeys(pool_key(device.driver, device.pool) for device in found))


def evicting_taints(slice: Json) -> dict[str, list[Json]]:
    """The NoExecute taints in a slice, by device."""
    found: dict[str, list[Json]] = {}
    for device in spec_of(slice).get("devices") or ():
        taints = [taint for taint in device.get("taints") or () if taint.get("effect") == NO_EXECUTE]
        if taints:
            found[device.get("name", "")] = taints
    return found


def generation_of(slice: Json) -> int:
    generation = (spec_of(slice).get("pool") or {}).get("generation")
    return generation if isinstance(generation, int) else 0


def current(slices: Iterable[Json]) -> list[Json]:
    """The slices of one pool that count: those of the newest generation."""
    found = list(slices)
    newest = max(map(generation_of, found), default=0)
    return [one for one in found if generation_of(one) == newest]


def taint_of(rule: Json) -> Json:
    return spec_of(rule).get("taint") or {}


def selects(rule: Json, device: TaintedDevice) -> bool:
    """True if a rule taints a device. A rule without a selector selects nothing."""
    selector = spec_of(rule).get("deviceSelector")
    if selector is None:
        return False
    wanted = (selector.get("driver"), selector.get("pool"), selector.get("device"))
    return all(want is None or want == have for want, have in zip(wanted, device, strict=True))


def _tolerates(toleration: Json, taint: Json) -> bool:
    """True if a toleration prevents eviction. Unlike for allocation, it has to name the effect."""
    if toleration.get("effect") != NO_EXECUTE:
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    if (toleration.get("operator") or "Equal") == "Exists":
        return True
    return (toleration.get("value") or "") == (taint.get("value") or "")


def _due(taint: Json, tolerations: Iterable[Json]) -> float | None:
    """When a taint evicts, None if it is tolerated for good."""
    added = time_of(taint.get("timeAdded"))
    limits: list[float] = []
    for toleration in tolerations:
        if _tolerates(toleration, taint):
            seconds = toleration.get("tolerationSeconds")
            if seconds is None:
                return None
            limits.append(max(float(seconds), 0.0))
    return added + min(limits, default=0.0)


@dataclass(slots=True)
class Taints:
    """Sources of eviction: the slices by pool, and the rules with the effect NoExecute by name."""

    slices: Index
    rules: Mapping[str, Json]

    def eviction_of(self, claim: Json) -> DeviceTaintEviction | None:
        """When pods that use a claim have to go, None if they may stay."""
        found: DeviceTaintEviction | None = None
        for result in allocated_devices(claim):
            for taint, rule in self._evicting(device_of(result)):
                at = _due(taint, result.get("tolerations") or ())
                if at is not None:
                    found = DeviceTaintEviction(at, frozenset((rule,) if rule else ())).joined(found)
        return found

    def _evicting(self, device: TaintedDevice) -> Iterator[tuple[Json, str]]:
        """The NoExecute taints of a device, each with the uid of the rule it is from, if it is."""
        for slice in current(self.slices[pool_key(device.driver, device.pool)].values()):
            for taint in evicting_taints(slice).get(device.name, ()):
                yield taint, ""
        for rule in self.rules.values():
            if selects(rule, device):
                yield taint_of(rule), uid_of(rule)


class Affected(NamedTuple):
    """Whom a rule concerns: pods (and in how many namespaces), published and allocated devices."""

    pods: int
    namespaces: int
    published: int = 0
    allocated: int = 0


def rule_condition(rule: Json, affected: Affected, evicted: int) -> Json:
    """The condition of a rule; `evicted` is how many pods have been because of it."""
    effect = taint_of(rule).get("effect", "")
    status, message = "False", ""
    if effect == NO_EXECUTE:
        reason = "Completed" if evicted else "NotStarted"
        if affected.pods:
            status, reason = "True", "PodsPendingEviction"
            needs = "1 pod needs" if affected.pods == 1 else f"{affected.pods} pods need"
            message = f"{needs} to be evicted in {_namespaces(affected)}."
    elif effect == NO_EFFECT:
        reason, message = "NoEffect", _dry_run(affected)
    else:
        reason, message = "OtherEffect", "Eviction only happens for the NoExecute effect."
    if evicted:
        done = f"{_count(evicted, 'pod')} evicted since starting the controller."
        message = f"{message} {done}" if message else done
    return {
        "type": EVICTION_IN_PROGRESS,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": rule["metadata"].get("generation", 0),
    }


def _dry_run(affected: Affected) -> str:
    return (
        f"{_count(affected.published, 'published device')} selected. "
        f"{_count(affected.allocated, 'allocated device')} selected. "
        f"{_count(affected.pods, 'pod')} would be evicted in {_namespaces(affected)} "
        "if the effect was NoExecute. This information will not be updated again. "
        "Recreate the DeviceTaintRule to trigger an update."
    )


def _count(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"


def _namespaces(affected: Affected) -> str:
    return "1 namespace" if affected.namespaces == 1 else f"{affected.namespaces} different namespaces"
