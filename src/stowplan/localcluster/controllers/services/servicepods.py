"""Which pods are behind which service, and what of a pod makes it an endpoint.

Kept as pods and services change, so that a sync of a service never looks through a namespace.
"""

import ipaddress
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Final, Generic, TypeVar

from stowplan.api.catalogue import PODS, SERVICES
from stowplan.api.requests import Json
from stowplan.localcluster.controllerruntime.controller import ControllerContext
from stowplan.localcluster.objects.fields import (
    condition_of,
    is_deleting,
    is_finished,
    is_ready,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    node_of,
    spec_of,
    status_of,
)

TRIGGER_TIME: Final = "endpoints.kubernetes.io/last-change-trigger-time"
HEADLESS: Final = "service.kubernetes.io/headless"
T = TypeVar("T")
_NOBODY: Final[Mapping[str, Json]] = {}


class ServicePods:
    """The pods that each service selects."""

    def __init__(self, context: ControllerContext) -> None:
        self.services = context.informers.of(SERVICES)
        self.pods = context.informers.of(PODS)
        self._by_pair = self.services.index(_first_pair)
        self._members: dict[str, dict[str, Json]] = {}
        self._listeners: list[Callable[[str], None]] = []
        self.services.add_handler(self._service_changed)
        self.pods.add_handler(self._pod_changed)

    def add_listener(self, listener: Callable[[str], None]) -> None:
        """Call with the key of every service whose endpoints may have changed."""
        self._listeners.append(listener)

    def of(self, service: str) -> Mapping[str, Json]:
        """The pods that a service selects, by key; finished ones too."""
        return self._members.get(service, _NOBODY)

    def _service_changed(self, old: Json | None, new: Json | None) -> None:
        service = new if new is not None else old
        assert service is not None
        key = key_of(service)
        if new is None or not selector_of(new):
            self._members.pop(key, None)
        elif old is None or selector_of(old) != selector_of(new):
            wanted = selector_of(new).items()
            pods = self.pods.in_namespace[namespace_of(new)]
            self._members[key] = {name: pod for name, pod in pods.items() if wanted <= labels_of(pod).items()}
        self._notify(key)

    def _pod_changed(self, old: Json | None, new: Json | None) -> None:
        before = () if old is None else self._selecting(old)
        if new is None:
            for service in before:
                self._members.get(service, {}).pop(key_of(old or {}), None)
                self._notify(service)
            return
        key = key_of(new)
        relabelled = old is None or labels_of(old) != labels_of(new)
        now = self._selecting(new) if relabelled else before
        for service in now:
            self._members.setdefault(service, {})[key] = new
        changed = relabelled or old is None or _endpoint_state(old) != _endpoint_state(new)
        if not changed:
            return
        for service in {*before, *now}:
            if service not in now:
                self._members.get(service, {}).pop(key, None)
            self._notify(service)

    def _selecting(self, pod: Json) -> list[str]:
        """The keys of the services that select a pod: those with one of its labels are looked at."""
        labels, namespace = labels_of(pod), namespace_of(pod)
        return [
            key
            for pair in labels.items()
            for key, service in self._by_pair[_pair_key(namespace, pair)].items()
            if selector_of(service).items() <= labels.items()
        ]

    def _notify(self, service: str) -> None:
        for listener in self._listeners:
            listener(service)


def selector_of(service: Json) -> dict[str, str]:
    return spec_of(service).get("selector") or {}


def _first_pair(service: Json) -> list[str]:
    selector = selector_of(service)
    return [_pair_key(namespace_of(service), min(selector.items()))] if selector else []


def _pair_key(namespace: str, pair: tuple[str, str]) -> str:
    return f"{namespace}/{pair[0]}={pair[1]}"


def _endpoint_state(pod: Json) -> object:
    """Relevant parts of a pod for endpoints, besides its labels."""
    status = status_of(pod)
    ready = condition_of(pod, "Ready") or {}
    return (
        is_finished(pod),
        is_deleting(pod),
        node_of(pod),
        ready.get("status"),
        status.get("podIP"),
        status.get("podIPs"),
    )


def has_endpoint(pod: Json, *, terminating: bool) -> bool:
    """True if a pod is an endpoint. `terminating`: one that is being deleted counts."""
    status = status_of(pod)
    if is_finished(pod) or not (status.get("podIP") or status.get("podIPs")):
        return False
    return terminating or not is_deleting(pod)


def is_published(pod: Json, service: Json) -> bool:
    """True if a pod is to receive traffic."""
    return bool(spec_of(service).get("publishNotReadyAddresses")) or is_ready(pod)


def addresses_of(pod: Json, family: str) -> list[str]:
    """The addresses of a pod in a family, `IPv4` or `IPv6`."""
    found = [one.get("ip", "") for one in status_of(pod).get("podIPs") or ()]
    return [address for address in found if family_of(address) == family]


@lru_cache(maxsize=65536)
def family_of(address: str) -> str:
    """`IPv4` or `IPv6`, "" for what is no address."""
    try:
        return f"IPv{ipaddress.ip_address(address).version}"
    except ValueError:
        return ""


def families_of(service: Json) -> list[str]:
    """The families that a service has endpoints of."""
    spec = spec_of(service)
    named = [one for one in spec.get("ipFamilies") or () if one in ("IPv4", "IPv6")]
    return named or [family_of(spec.get("clusterIP") or "") or "IPv4"]


def is_headless(service: Json) -> bool:
    return spec_of(service).get("clusterIP") in (None, "", "None")


def hostname_for(pod: Json, service: Json) -> str:
    """The name of a pod within a service, "" if it has none there."""
    spec = spec_of(pod)
    return spec.get("hostname") or "" if spec.get("subdomain") == name_of(service) else ""


def find_port(pod: Json, port: Json) -> int | None:
    """The number of a service's port on a pod, None if the pod has no port of that name."""
    target = port.get("targetPort", port.get("port"))
    if isinstance(target, int):
        return target
    protocol = port.get("protocol", "TCP")
    for container in _serving_containers(pod):
        for one in container.get("ports") or ():
            if one.get("name") == target and one.get("protocol", "TCP") == protocol:
                number: int = one["containerPort"]
                return number
    return None


def _serving_containers(pod: Json) -> Iterable[Json]:
    spec = spec_of(pod)
    yield from spec.get("containers") or ()
    yield from (one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always")


class KeptByPod(Generic[T]):
    """Data derived from the pods of a service, kept until the pod or the service changes.

    Of thousands of pods behind a service few have changed by the next sync.
    """

    def __init__(self, make: Callable[[Json, Json, str], T]) -> None:
        """`make` is called with a pod, the service, and something else that the result depends on."""
        self._make = make
        self._kept: dict[str, tuple[Json, dict[str, tuple[Json, str, T]]]] = {}

    def all(self, key: str, service: Json, pods: Mapping[str, Json], also: Callable[[Json], str]) -> list[T]:
        """Data of all pods, in their order. `also` is an additional input for each."""
        before, kept = self._kept.get(key, (service, {}))
        if before is not service:
            kept = {}
        now: dict[str, tuple[Json, str, T]] = {}
        for name, pod in pods.items():
            entry, more = kept.get(name), also(pod)
            if entry is None or entry[0] is not pod or entry[1] != more:
                entry = (pod, more, self._make(pod, service, more))
            now[name] = entry
        self._kept[key] = (service, now)
        return [entry[2] for entry in now.values()]

    def forget(self, key: str) -> None:
        self._kept.pop(key, None)


def ready_changed(pod: Json) -> str:
    """When a pod became ready or not ready, as text."""
    return str((condition_of(pod, "Ready") or {}).get("lastTransitionTime") or "")


class TriggerTimes:
    """When the change happened that made endpoints change: the earliest one since the last sync of a service.

    A service changes when it is created, a pod when its readiness does. Times are text that sorts.
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[str, dict[str, str]]] = {}

    def next(self, key: str, service: Json, times: dict[str, str]) -> str:
        """The time to be written, "" if nothing with a time has changed. `times`: of the pods, by name."""
        service_before, pods_before = self._seen.get(key, ("", {}))
        created: str = service["metadata"].get("creationTimestamp", "")
        changed = [time for name, time in times.items() if time > pods_before.get(name, "")]
        if created > service_before:
            changed.append(created)
        self._seen[key] = (created, times)
        return min(changed, default="")

    def forget(self, key: str) -> None:
        self._seen.pop(key, None)
