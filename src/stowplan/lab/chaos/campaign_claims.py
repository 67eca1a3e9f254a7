"""Resource claims in campaigns: devices on every node, pods that ask for them, and what must hold.

The controllers of claims and a driver run in the process of the campaign; neither is disturbed by its faults,
except that the API server may be gone.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Final

import aiohttp

from stowplan.api.catalogue import PODS, RESOURCE_CLAIMS
from stowplan.api.devices import EXTENDED_RESOURCE_CLAIM
from stowplan.api.meta import timestamp
from stowplan.client.http import HttpClient, load_kubeconfig
from stowplan.lab.chaos.processes import Json, ServerProcess
from stowplan.localcluster.controllerruntime.controller import ControllerContext, ControllerManager
from stowplan.localcluster.controllers.devices.resourceclaim import ResourceClaimController
from stowplan.localcluster.controllers.garbagecollector import GarbageCollector
from stowplan.runtime.clock import RealClock

GONE_WITHIN: Final = 30.0
"""Seconds after which the claims of pods that were deleted are gone, and their devices free."""

UNREACHABLE: Final = (OSError, aiohttp.ClientError, asyncio.TimeoutError)

_DRIVER: Final = "gpu.example.com"
_EXTENDED: Final = "example.com/gpu"
_READY: Final = "example.com/ready"
_BROKEN: Final = "example.com/broken"
_FABRIC: Final = "fabric"
_SHARING: Final = 3
_GROUP: Final = "/apis/resource.k8s.io/v1"
_CLAIMS: Final = f"{_GROUP}/namespaces/default/resourceclaims"
_KINDS: Final = ("template", "slow template", "extended resource", "shared claim", "plain", "plain")
"""Requests of pods, in turns. Slow devices are used when their driver has reported them ready."""


class CampaignClaims:
    """The device objects of a campaign, their controllers, and the checks.

    Every node has a device of each kind for every pod that it has room for, and shared claims are met on any
    node, so that all pods can be bound.
    """

    def __init__(self, server: ServerProcess, nodes: Sequence[str], devices: int, kubeconfig: Path) -> None:
        self._server = server
        self._nodes = nodes
        self._devices = devices
        self._kubeconfig = kubeconfig
        self._rng = Random("campaign claims")
        self._tasks: list[asyncio.Task[None]] = []
        self._problems: deque[str] = deque(maxlen=2)
        """Last messages of the controllers."""

    async def start(self) -> None:
        for name in ("gpu", "slow", _FABRIC):
            await self._server.request("POST", f"{_GROUP}/deviceclasses", _class(name))
            if name != _FABRIC:
                path = f"{_GROUP}/namespaces/default/resourceclaimtemplates"
                await self._server.request("POST", path, _template(name))
        for node in self._nodes:
            await self._server.request("POST", f"{_GROUP}/resourceslices", _slice(node, self._devices))
        await self._server.request("POST", f"{_GROUP}/resourceslices", _slice(_FABRIC, self._devices))
        self._tasks = [asyncio.create_task(self._control()), asyncio.create_task(self._drive())]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _control(self) -> None:
        """Run the controllers of claims."""
        clock = RealClock()
        client = HttpClient(load_kubeconfig(self._kubeconfig), clock=clock, rng=Random("claims"), qps=-1)
        async with client:
            context = ControllerContext.of(client, clock, Random("controllers"), self._problems.append)
            controllers = [
                ResourceClaimController(context),
                GarbageCollector(context, (PODS, RESOURCE_CLAIMS)),
            ]
            await ControllerManager(context, controllers).run()

    async def _drive(self) -> None:
        """Report slow devices as ready, or now and then as broken: then others have to be found."""
        while True:
            await asyncio.sleep(0.2)
            try:
                for claim in await self.all():
                    reports = _missing_reports(claim, _BROKEN if self._rng.random() < 0.1 else _READY)
                    if reports:
                        body = {**claim, "status": {**claim["status"], "devices": reports}}
                        name = claim["metadata"]["name"]
                        await self._server.request("PUT", f"{_CLAIMS}/{name}/status", body)
            except UNREACHABLE:
                continue

    async def all(self) -> list[Json]:
        """All claims. Raises what `ServerProcess.request` does."""
        items: list[Json] = (await self._server.request("GET", _CLAIMS))["items"]
        return items

    # One round

    def wants(self, number: int) -> str:
        """Request of a pod of a round."""
        return _KINDS[number % len(_KINDS)]

    def bodies(self, prefix: str, pods: int) -> Iterator[tuple[str, Json]]:
        """Where to post the claims that several pods of a round share, and their bodies."""
        sharing = sum(1 for number in range(pods) if self.wants(number) == "shared claim")
        for number in range(-(-sharing // _SHARING)):
            metadata = {"name": f"{prefix}-common-{number}", "namespace": "default"}
            yield _CLAIMS, {"metadata": metadata, "spec": _claim_spec(_FABRIC)}

    def with_devices(self, pod: Json, prefix: str, number: int) -> Json:
        """The pod of a round that has this number, asking for devices."""
        spec = pod["spec"]
        match self.wants(number):
            case "template":
                spec["resourceClaims"] = [{"name": "own", "resourceClaimTemplateName": "gpu"}]
            case "slow template":
                spec["resourceClaims"] = [{"name": "own", "resourceClaimTemplateName": "slow"}]
            case "shared claim":
                common = f"{prefix}-common-{number // len(_KINDS) // _SHARING}"
                spec["resourceClaims"] = [{"name": "common", "resourceClaimName": common}]
            case "extended resource":
                resources = spec["containers"][0]["resources"]
                resources["requests"] = {**resources["requests"], _EXTENDED: "1"}
                resources["limits"] = {_EXTENDED: "1"}
        return pod

    async def check_devices(self) -> list[str]:
        """Devices that two claims have."""
        holders: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for claim in await self.all():
            for result in _results(claim):
                holders[result["pool"], result["device"]].append(claim["metadata"]["name"])
        return [
            f"device {'/'.join(device)} is given to {' and '.join(sorted(names))}"
            for device, names in sorted(holders.items())
            if len(names) > 1
        ]

    async def check(self, pods: Sequence[Json]) -> list[str]:
        """Problems of the claims when all pods of a round are bound."""
        claims = {claim["metadata"]["name"]: claim for claim in await self.all()}
        by_uid = {pod["metadata"]["uid"]: pod for pod in pods}
        problems = await self.check_devices()
        problems += [
            f"{task.get_coro()} has ended: {task.exception()}" for task in self._tasks if task.done()
        ]
        for pod in pods:
            problems += _claim_problems(pod, claims)
        made: defaultdict[str, list[str]] = defaultdict(list)
        for name, claim in claims.items():
            for uid in _reserved(claim):
                if uid not in by_uid:
                    problems.append(f"claim {name} is reserved for a pod that is gone")
            for owner in claim["metadata"].get("ownerReferences") or ():
                if not _came_late(claim):
                    made[owner["name"]].append(name)
        problems += [f"pod {pod} has {len(names)} claims" for pod, names in made.items() if len(names) > 1]
        return problems

    async def end_round(self, prefix: str) -> list[str]:
        """Delete the shared claims of a round whose pods are deleted, and see that no claim is left."""
        for claim in await self.all():
            name = claim["metadata"]["name"]
            if name.startswith(f"{prefix}-common-"):
                await self._server.request("DELETE", f"{_CLAIMS}/{name}")
        deadline = asyncio.get_running_loop().time() + GONE_WITHIN
        while left := await self.all():
            if asyncio.get_running_loop().time() > deadline:
                names = sorted(claim["metadata"]["name"] for claim in left)
                said = f" (controllers: {' / '.join(self._problems)})" if self._problems else ""
                return [f"{len(left)} claims are left when their pods are gone: {', '.join(names[:3])}{said}"]
            await asyncio.sleep(0.2)
        return []


def _claim_problems(pod: Json, claims: Mapping[str, Json]) -> list[str]:
    """Problems of a bound pod's claims."""
    name, uid, node = pod["metadata"]["name"], pod["metadata"]["uid"], pod["spec"].get("nodeName")
    if not node:
        return []
    named = [*_claim_names(pod)]
    if not named and ("resourceClaims" in pod["spec"] or _asks_by_name(pod)):
        return [f"pod {name} is bound without a claim"]
    problems = []
    for key in named:
        claim = claims.get(key, {})
        if not _results(claim):
            problems.append(f"pod {name} is bound and its claim {key} has no devices")
        elif uid not in _reserved(claim):
            problems.append(f"pod {name} is bound and its claim {key} is not reserved for it")
        elif any(result["pool"] not in (node, _FABRIC) for result in _results(claim)):
            problems.append(f"pod {name} is on {node}, the devices of its claim {key} are not")
    return problems


def _came_late(claim: Json) -> bool:
    """True if a claim for extended resources was never used: its creation request was delayed in the network,
    or in a paused process, until another scheduler had created another one. It is deleted with its pod."""
    extended = (claim["metadata"].get("annotations") or {}).get(EXTENDED_RESOURCE_CLAIM) == "true"
    return extended and not _results(claim) and not _reserved(claim)


def _claim_names(pod: Json) -> Iterator[str]:
    for entry in pod["spec"].get("resourceClaims") or ():
        if entry.get("resourceClaimName"):
            yield entry["resourceClaimName"]
    for status in pod.get("status", {}).get("resourceClaimStatuses") or ():
        yield status["resourceClaimName"]
    extended = pod.get("status", {}).get("extendedResourceClaimStatus")
    if extended:
        yield extended["resourceClaimName"]


def _asks_by_name(pod: Json) -> bool:
    return _EXTENDED in pod["spec"]["containers"][0]["resources"]["requests"]


def _results(claim: Json) -> list[Json]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    results: list[Json] = (allocation.get("devices") or {}).get("results") or []
    return results


def _reserved(claim: Json) -> list[str]:
    return [one["uid"] for one in (claim.get("status") or {}).get("reservedFor") or ()]


def _missing_reports(claim: Json, condition: str) -> list[Json]:
    """Reports about the devices of a claim that the driver has not made yet."""
    wanted = [one for one in _results(claim) if one.get("bindingConditions")]
    if not wanted or claim["status"].get("devices"):
        return []
    now = timestamp(RealClock().now())
    reported = {
        "type": condition,
        "status": "True",
        "reason": "Driver",
        "message": "",
        "lastTransitionTime": now,
    }
    return [
        {**{field: one[field] for field in ("driver", "pool", "device")}, "conditions": [reported]}
        for one in wanted
    ]


def _class(name: str) -> Json:
    expression = f'device.attributes["{_DRIVER}"].kind == "{name}"'
    spec: Json = {"selectors": [{"cel": {"expression": expression}}]}
    if name == "gpu":
        spec["extendedResourceName"] = _EXTENDED
    return {"metadata": {"name": name}, "spec": spec}


def _claim_spec(device_class: str) -> Json:
    return {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": device_class}}]}}


def _template(name: str) -> Json:
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"spec": _claim_spec(name)}}


def _slice(pool: str, devices: int) -> Json:
    kinds = [_FABRIC] if pool == _FABRIC else ["gpu", "slow"]
    offered = []
    for kind in kinds:
        for number in range(devices):
            device: Json = {"name": f"{kind}-{number}", "attributes": {"kind": {"string": kind}}}
            if kind == "slow":
                device |= {"bindingConditions": [_READY], "bindingFailureConditions": [_BROKEN]}
            offered.append(device)
    return {
        "metadata": {"name": f"{pool}-devices"},
        "spec": {
            "driver": _DRIVER,
            "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1},
            **({"allNodes": True} if pool == _FABRIC else {"nodeName": pool}),
            "devices": offered,
        },
    }
