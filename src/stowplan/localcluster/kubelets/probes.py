"""Probes of simulated containers: they pass, unless an annotation or the probe itself says otherwise.

A probe that runs `false` fails, as it would in a container.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from stowplan.api.requests import Json
from stowplan.localcluster.objects.fields import spec_of

KINDS: Final = ("readiness", "liveness", "startup")
_FALSE: Final = (["false"], ["/bin/false"], ["/usr/bin/false"])
_KILLING: Final = ("liveness", "startup")


class FailedProbe(NamedTuple):
    """A container whose probe fails so often that it is killed, and when, in seconds after its start."""

    container: str
    kind: str
    seconds: float


class ProbeResults(NamedTuple):
    """Effect of a pod's probes: containers that are not ready, and the first one that is killed."""

    unready: Mapping[str, str] = {}
    """Containers that never become ready, each with the kind of its failing probe."""
    killed: FailedProbe | None = None
    delay: float = 0.0
    """Seconds after the start until the first readiness probe."""


ALL_PASS: Final = ProbeResults()


def probe_results(pod: Json, pretended: Mapping[str, bool]) -> ProbeResults:
    """Results of a pod's probes; `pretended` has the kinds that pass or fail whatever they are."""
    unready: dict[str, str] = {}
    killed: list[FailedProbe] = []
    delay = 0.0
    for container in spec_of(pod).get("containers") or ():
        name = str(container.get("name", ""))
        delay = max(delay, (container.get("readinessProbe") or {}).get("initialDelaySeconds") or 0.0)
        for kind in KINDS:
            probe = container.get(f"{kind}Probe")
            if not probe or not _fails(probe, pretended.get(kind)):
                continue
            if kind != "liveness":
                unready.setdefault(name, kind)
            if kind in _KILLING:
                killed.append(FailedProbe(name, kind, _seconds(probe)))
    if not unready and not killed and not delay:
        return ALL_PASS
    return ProbeResults(unready, min(killed, key=lambda one: one.seconds, default=None), delay)


def _fails(probe: Json, passes: bool | None) -> bool:
    if passes is not None:
        return not passes
    return (probe.get("exec") or {}).get("command") in _FALSE


def _seconds(probe: Json) -> float:
    """Time from the start of a container to the last failure that it is allowed."""
    tries = (probe.get("failureThreshold") or 3) - 1
    return float((probe.get("initialDelaySeconds") or 0) + tries * (probe.get("periodSeconds") or 10))
