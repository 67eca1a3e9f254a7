"""How long `stowplan run` takes from its start to being ready, and to its first binding.

An API server in a process of its own has nodes with running pods on them, and one pod that waits. The pods
are as long as in real clusters: with an owner, a token volume, tolerations, a status as kubelets write it,
and a record of who manages which field. Then the scheduler is started, a few times in a row, each time anew:
Python, imports, configuration, secure port, lease, lists. The first start, for which nothing is in the
system's file cache, does not count. CPU time and memory are those of its process.
"""

import asyncio
import random
import ssl
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Final

from stowplan.api.catalogue import NAMESPACES, NODES, PODS
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.api.requests import DeleteOptions, FieldTerm, Json, Selection
from stowplan.api.status import ApiError
from stowplan.bench.http import STOWPLAN_COMMAND, BenchError, MeasuredProcess, scheduler_process
from stowplan.bench.processes import server_process
from stowplan.bench.workloads import HOSTNAME, ZONE, ZONES, node_name
from stowplan.client.http import HttpClient, load_kubeconfig
from stowplan.clock import RealClock
from stowplan.embedded.durable import open_data_dir
from stowplan.embedded.store import Store
from stowplan.testing.ports import free_port

NAMESPACE: Final = "default"
FIRST: Final = "stowplan-bench-first"
"""The pod whose binding is waited for."""

_CONNECT_EVERY: Final = 0.01
_ASK_EVERY: Final = 0.05
"""Seconds between two questions: every answer costs the scheduler some CPU time."""
_SERVER_SECONDS: Final = 300.0
_TIMEOUT: Final = 300.0
_TIME: Final = "2026-01-01T00:00:00Z"
_REPLICAS: Final = 100
"""Pods of one ReplicaSet."""


@dataclass(frozen=True, slots=True)
class StartRun:
    """What to measure. Without a `kubeconfig` an API server of our own is started and filled.

    With one, the cluster is taken as it is: `nodes` and `pods` mean nothing, and a pod is created that is
    deleted afterwards.
    """

    nodes: int = 5000
    pods: int = 30_000
    rounds: int = 3
    kubeconfig: str = ""


@dataclass(frozen=True, slots=True)
class StartFigures:
    """Medians over the rounds. Times are from the start of the process; `bound_s` and the CPU time until the
    first binding are 0 if there is no node to bind to."""

    ready_s: float
    bound_s: float
    ready_cpu_s: float
    bound_cpu_s: float
    peak_rss_mib: float


def measure(run: StartRun) -> StartFigures:
    """Start the server once and the scheduler a few times. Raises BenchError."""
    try:
        return asyncio.run(_measure(run))
    except ApiError as error:
        raise BenchError(str(error)) from None


async def _measure(run: StartRun) -> StartFigures:
    async with AsyncExitStack() as stack:
        kubeconfig = run.kubeconfig
        if not kubeconfig:
            data = Path(stack.enter_context(tempfile.TemporaryDirectory()), "data")
            await _prepare(run, data)
            server = server_process(str(data), seconds=_SERVER_SECONDS)
            kubeconfig = str(await stack.enter_async_context(server))
        client = HttpClient(
            load_kubeconfig(kubeconfig),
            clock=RealClock(),
            rng=random.Random(0),
            qps=-1,
            user_agent="stowplan-bench",
        )
        await stack.enter_async_context(client)
        nodes = len((await client.list(NODES, Node)).items) if run.kubeconfig else run.nodes
        binds = nodes > 0
        await _start(client, kubeconfig, binds=binds)
        rounds = [await _start(client, kubeconfig, binds=binds) for _ in range(run.rounds)]
    return StartFigures(
        *(round(median(values), 3) for values in zip(*(_values(one) for one in rounds), strict=True))
    )


def _values(figures: StartFigures) -> tuple[float, ...]:
    return (
        figures.ready_s,
        figures.bound_s,
        figures.ready_cpu_s,
        figures.bound_cpu_s,
        figures.peak_rss_mib,
    )


async def _prepare(run: StartRun, folder: Path) -> None:
    """Keep nodes and pods in a data directory."""
    store = Store(RealClock(), random.Random(0))
    keeper = open_data_dir(store, folder)
    try:
        store.load(NAMESPACES, {"metadata": {"name": NAMESPACE}}, handed_over=True)
        for number in range(run.nodes):
            store.load(NODES, running_node(number), handed_over=True)
        for number in range(run.pods if run.nodes else 0):
            store.load(PODS, running_pod(number, node_name(number % run.nodes)), handed_over=True)
        lost = await store.settled()
        if lost is not None:
            raise lost
    finally:
        keeper.close()


async def _start(client: HttpClient, kubeconfig: str, *, binds: bool) -> StartFigures:
    """One start of the scheduler, measured, and its end. `binds`: there are nodes for pods."""
    async with AsyncExitStack() as stack:
        since = ""
        if binds:
            created = await client.create(PODS, _waiting_pod())
            since = created["metadata"]["resourceVersion"]
            stack.push_async_callback(client.delete, PODS, NAMESPACE, FIRST, DeleteOptions(0))
        port = free_port()
        command = [part for part in STOWPLAN_COMMAND if not part.startswith("--secure-port")]
        began = perf_counter()
        process = await stack.enter_async_context(
            scheduler_process([*command, f"--secure-port={port}"], kubeconfig)
        )
        try:
            async with asyncio.timeout(_TIMEOUT):
                ready, bound = await asyncio.gather(
                    _until_ready(process, port, began), _until_bound(client, process, began, since)
                )
        except TimeoutError:
            process.check()
            raise BenchError(f"the scheduler was not ready within {_TIMEOUT:.0f} s") from None
        return StartFigures(ready[0], bound[0], ready[1], bound[1], process.peak_rss_mib)


async def _until_ready(process: MeasuredProcess, port: int, began: float) -> tuple[float, float]:
    """Ask /readyz until it answers with 200: seconds since the beginning, and of CPU time."""
    while True:
        process.check()
        with suppress(OSError):
            async with _connection(port) as (reader, writer):
                while await _status(reader, writer) != 200:
                    await asyncio.sleep(_ASK_EVERY)
                return perf_counter() - began, process.cpu
        await asyncio.sleep(_CONNECT_EVERY)


@asynccontextmanager
async def _connection(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection to the secure port, whose certificate it has made itself."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        yield reader, writer
    finally:
        writer.close()


async def _status(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
    writer.write(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
    await reader.readexactly(length)
    return int(head.split(b" ", 2)[1])


async def _until_bound(
    client: HttpClient, process: MeasuredProcess, began: float, since: str
) -> tuple[float, float]:
    """Wait for the binding of the pod, if there is one: seconds since the beginning, and of CPU time."""
    if not since:
        return 0.0, 0.0
    chosen = Selection(fields=(FieldTerm("metadata.name", FIRST, equal=True),))
    while True:
        process.check()
        watch = client.watch(PODS, Pod, namespace=NAMESPACE, selection=chosen, since=since)
        async with aclosing(watch) as events:
            async for event in events:
                if event.object is not None and event.object.spec.node_name:
                    return perf_counter() - began, process.cpu


def _waiting_pod() -> Json:
    requests = {"cpu": "100m", "memory": "500Mi"}
    container = {"name": "main", "image": "registry.example/app:1", "resources": {"requests": requests}}
    return {
        "metadata": {"name": FIRST, "namespace": NAMESPACE, "labels": {"app": "first"}},
        "spec": {"containers": [container], "automountServiceAccountToken": False},
    }


# What real clusters hold


def running_node(number: int) -> Json:
    """A node as its kubelet reports it, with thirty images."""
    name = node_name(number)
    amounts = {"cpu": "32", "memory": "256Gi", "ephemeral-storage": "100Gi", "pods": "110"}
    conditions = [
        {
            "type": kind,
            "status": "True" if kind == "Ready" else "False",
            "lastHeartbeatTime": _TIME,
            "lastTransitionTime": _TIME,
            "reason": f"Kubelet{kind}",
            "message": f"kubelet says {kind}",
        }
        for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    ]
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "creationTimestamp": _TIME,
            "labels": {
                HOSTNAME: name,
                ZONE: ZONES[number % len(ZONES)],
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "node.kubernetes.io/instance-type": "m5.8xlarge",
            },
            "annotations": {"node.alpha.kubernetes.io/ttl": "0"},
            "managedFields": _managed("kubelet", ("capacity", "allocatable", "conditions", "images")),
        },
        "spec": {
            "podCIDR": f"10.{number // 256 % 256}.{number % 256}.0/24",
            "providerID": f"cloud:///{name}",
        },
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": conditions,
            "addresses": [{"type": "InternalIP", "address": f"192.168.{number // 256 % 256}.{number % 256}"}],
            "images": [
                {"names": [f"registry.example/team-{image}/service:{image}"], "sizeBytes": 10_000_000 * image}
                for image in range(1, 31)
            ],
            "nodeInfo": {"kubeletVersion": "v1.37.0", "osImage": "Linux", "architecture": "amd64"},
        },
    }


def running_pod(number: int, node: str) -> Json:
    """A pod of a ReplicaSet as an API server lists it when it runs: about four kilobytes."""
    owner, name = number // _REPLICAS, f"web-{number // _REPLICAS}-{number:x}"
    app = f"web-{owner}"
    requests = {"cpu": "100m", "memory": "256Mi"}
    token = {
        "name": f"kube-api-access-{number:05x}",
        "projected": {
            "defaultMode": 420,
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {
                    "configMap": {
                        "name": "kube-root-ca.crt",
                        "items": [{"key": "ca.crt", "path": "ca.crt"}],
                    }
                },
            ],
        },
    }
    container = {
        "name": "main",
        "image": f"registry.example/team-{owner % 30 + 1}/service:{owner % 30 + 1}",
        "imagePullPolicy": "IfNotPresent",
        "ports": [{"containerPort": 8080, "protocol": "TCP"}],
        "env": [{"name": f"SETTING_{place}", "value": f"value of setting {place}"} for place in range(5)],
        "resources": {"requests": requests, "limits": {"memory": "512Mi"}},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "volumeMounts": [
            {
                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
                "name": token["name"],
                "readOnly": True,
            }
        ],
    }
    return {
        "metadata": {
            "name": name,
            "generateName": f"{app}-",
            "namespace": NAMESPACE,
            "uid": f"uid-{name}",
            "creationTimestamp": _TIME,
            "labels": {"app": app, "pod-template-hash": f"{owner:010x}"},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": app,
                    "uid": f"uid-{app}",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": [
                *_managed(
                    "kube-controller-manager", ("containers", "restartPolicy", "dnsPolicy", "tolerations")
                ),
                *_managed(
                    "kubelet", ("conditions", "containerStatuses", "hostIP", "phase", "podIP", "startTime")
                ),
            ],
        },
        "spec": {
            "nodeName": node,
            "schedulerName": "default-scheduler",
            "containers": [container],
            "volumes": [token],
            "restartPolicy": "Always",
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default",
            "serviceAccount": "default",
            "terminationGracePeriodSeconds": 30,
            "securityContext": {},
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
            "priority": 0,
            "tolerations": [
                {
                    "key": f"node.kubernetes.io/{what}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
                for what in ("not-ready", "unreachable")
            ],
        },
        "status": _running_status(number, container["image"], requests),
    }


def _running_status(number: int, image: Any, requests: dict[str, str]) -> Json:
    address = f"10.{number // 65_536 % 256}.{number // 256 % 256}.{number % 256}"
    return {
        "phase": "Running",
        "qosClass": "Burstable",
        "hostIP": "192.168.0.1",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": _TIME,
        "conditions": [
            {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": _TIME}
            for kind in (
                "PodReadyToStartContainers",
                "Initialized",
                "Ready",
                "ContainersReady",
                "PodScheduled",
            )
        ],
        "containerStatuses": [
            {
                "name": "main",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "image": image,
                "imageID": f"registry.example/service@sha256:{number % 30:064x}",
                "containerID": f"containerd://{number:064x}",
                "state": {"running": {"startedAt": _TIME}},
                "lastState": {},
                "resources": {"requests": requests, "limits": {"memory": "512Mi"}},
                "allocatedResources": requests,
            }
        ],
    }


def _managed(manager: str, fields: tuple[str, ...]) -> list[Json]:
    """Who manages which fields, as an API server records it."""
    owned: Json = {f"f:{field}": {".": {}, 'k:{"name":"main"}': {".": {}, "f:name": {}}} for field in fields}
    return [
        {
            "manager": manager,
            "operation": "Update",
            "apiVersion": "v1",
            "time": _TIME,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:app": {}}}, "f:status": owned},
        }
    ]
