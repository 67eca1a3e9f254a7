"""The operations of a workload, carried out one after the other against an API server."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial
from random import Random
from time import perf_counter, process_time
from typing import Final

from stowplan.api.catalogue import (
    CSI_NODES,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    Catalogue,
    Resource,
)
from stowplan.api.pod import Pod
from stowplan.api.requests import DeleteOptions, Json
from stowplan.api.status import ApiError
from stowplan.client import Client
from stowplan.lab.bench.perf import definitions as ops
from stowplan.lab.bench.perf.claims import allocate_claims
from stowplan.lab.bench.perf.declaredfeatures import made_up_features
from stowplan.lab.bench.perf.definitions import Benchmark, DefinitionError
from stowplan.lab.bench.perf.figures import HISTOGRAMS, DataItem, Series, durations, histograms, throughput
from stowplan.lab.bench.perf.manifests import PerfManifests
from stowplan.lab.bench.perf.pods import PodTracker, ScheduledTimes
from stowplan.lab.bench.servers.http import BenchError
from stowplan.scheduler import Scheduler

WORKERS: Final = 30
"""Number of objects that are created at the same time."""
_IN_A_ROW: Final = 20
"""Number of objects created before other tasks get a turn."""
_AT_ONCE: Final = DeleteOptions(grace_period_seconds=0, propagation="Background")
_ALREADY_EXISTS: Final = "AlreadyExists"
_MIGRATED: Final = "storage.alpha.kubernetes.io/migrated-plugins"

BASE_NODE: Final[Json] = {
    "apiVersion": "v1",
    "kind": "Node",
    "status": {
        "capacity": {"pods": "110", "cpu": "4", "memory": "32Gi"},
        "allocatable": {"pods": "110", "cpu": "4", "memory": "32Gi"},
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}
"""A node where an operation names no template."""
BASE_POD: Final[Json] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"generateName": "pod-"},
    "spec": {
        "containers": [
            {
                "name": "pause",
                "image": "registry.k8s.io/pause:3.10.1",
                "ports": [{"containerPort": 80}],
                "resources": {
                    "limits": {"cpu": "100m", "memory": "500Mi"},
                    "requests": {"cpu": "100m", "memory": "500Mi"},
                },
            }
        ]
    },
}
"""A pod where neither an operation nor its test case names a template."""


class WorkloadExecutor:
    """Carries out the operations of one workload. `items` are the figures collected."""

    def __init__(
        self, benchmark: Benchmark, client: Client, scheduler: Scheduler, pods: PodTracker, rng: Random
    ) -> None:
        self._benchmark = benchmark
        self._client = client
        self._scheduler = scheduler
        self._pods = pods
        self._rng = rng
        self._manifests = PerfManifests()
        self._catalogue = Catalogue()
        self._background: set[asyncio.Task[None]] = set()
        self._expected: Counter[str] = Counter()
        """Pods that are to be scheduled and were not waited for, by namespace."""
        self._namespaces: set[str] = set()
        self._nodes = 0
        self._collected_as = ""
        self._before: Mapping[str, Series] = {}
        self.items: list[DataItem] = []
        self.seconds = 0.0
        """How long figures were collected."""
        self.cpu = 0.0
        """CPU time of this process meanwhile."""
        self.measured = 0
        """Number of pods that got a node meanwhile."""
        self.created: list[tuple[Resource, str, str]] = []

    async def run(self) -> None:
        """Carry out everything. Raises BenchError, DefinitionError and ApiError."""
        try:
            for number, operation in enumerate(self._benchmark.operations()):
                await self._run(number, operation)
        finally:
            for task in self._background:
                task.cancel()
            await asyncio.gather(*self._background, return_exceptions=True)

    async def clean_up(self) -> None:
        """Delete what was created, but for namespaces."""
        for resource, namespace, name in reversed(self.created):
            try:
                await self._client.delete(resource, namespace, name, _AT_ONCE)
            except ApiError as error:
                if error.code != 404:
                    raise

    async def _run(self, number: int, operation: ops.Operation) -> None:
        match operation:
            case ops.CreateNodes():
                await self._create_nodes(number, operation)
            case ops.CreateNamespaces():
                await self._create_namespaces(operation)
            case ops.CreatePods():
                await self._create_pods(number, operation)
            case ops.CreateAny() | ops.CreatePodGroups() | ops.CreateResourceClaims():
                await self._create_objects(operation)
            case ops.AllocResourceClaims():
                await allocate_claims(self._client, self._scheduler, operation.namespace, self._rng)
            case ops.UpdateAny():
                await self._update(operation)
            case ops.DeletePods():
                await self._delete_pods(operation)
            case ops.Churn():
                await self._churn(number, operation)
            case ops.Barrier():
                await self._wait_for(operation)
            case ops.Sleep():
                await asyncio.sleep(operation.seconds)
            case ops.StartCollectingMetrics():
                self._start_collecting(operation.name, operation.namespaces, operation.label_selector)
            case ops.StopCollectingMetrics():
                self._stop_collecting()
            case ops.CreatePodSets():
                raise DefinitionError("createPodSets: was not unrolled")

    # Objects

    def _resource(self, obj: Json, where: str) -> Resource:
        found = self._catalogue.of_kind(obj.get("apiVersion", ""), obj.get("kind", ""))
        if found is None:
            raise DefinitionError(f"{where}: unknown kind {obj.get('apiVersion')} {obj.get('kind')}")
        return found

    async def _create(self, resource: Resource, body: Json, namespace: str = "") -> Json:
        made = await self._client.create(resource, body, namespace=namespace)
        self.created.append((resource, namespace, made["metadata"]["name"]))
        return made

    async def _ensure_namespace(self, name: str, body: Json | None = None) -> None:
        if name in self._namespaces:
            return
        self._namespaces.add(name)
        made: Json = {"apiVersion": "v1", "kind": "Namespace", **(body or {})}
        made["metadata"] = {**made.get("metadata", {}), "name": name}
        made["metadata"].pop("generateName", None)
        try:
            await self._client.create(NAMESPACES, made)
        except ApiError as error:
            if error.reason != _ALREADY_EXISTS:
                raise

    async def _create_namespaces(self, operation: ops.CreateNamespaces) -> None:
        path = operation.namespace_template_path
        for number in range(operation.count):
            body = self._manifests.one(self._benchmark.path(path)) if path else None
            await self._ensure_namespace(f"{operation.prefix}-{number}", body)

    async def _create_objects(
        self, operation: ops.CreateAny | ops.CreatePodGroups | ops.CreateResourceClaims
    ) -> None:
        path, namespace = self._benchmark.path(operation.template_path), operation.namespace
        if namespace:
            await self._ensure_namespace(namespace)
        params = getattr(operation, "template_params", {})
        for body in self._manifests.many(path, operation.count, params):
            resource = self._resource(body, operation.template_path)
            await self._create(resource, body, namespace if resource.namespaced else "")
        await asyncio.sleep(0)

    async def _update(self, operation: ops.UpdateAny) -> None:
        path = self._benchmark.path(operation.template_path)
        pause = 1 / operation.update_per_second if operation.update_per_second else 0.0
        subresource = "/".join(operation.subresources)
        for body in self._manifests.many(path, operation.count):
            await asyncio.sleep(pause)
            resource = self._resource(body, operation.template_path)
            if operation.namespace:
                body["metadata"]["namespace"] = operation.namespace
            await self._client.update(resource, body, subresource=subresource)
            await self._client.update(resource, body, subresource="status")

    # Nodes

    async def _create_nodes(self, number: int, operation: ops.CreateNodes) -> None:
        path, labels = operation.node_template_path, operation.label_node_prepare_strategy
        bodies: Iterable[Json] = (
            self._manifests.many(self._benchmark.path(path), operation.count, operation.template_params)
            if path
            else ({**BASE_NODE, "metadata": {}} for _ in range(operation.count))
        )
        features = made_up_features(self._benchmark)
        for place, body in enumerate(bodies):
            metadata: Json = body.setdefault("metadata", {})
            prefix = metadata.pop("generateName", f"node-{number}-")
            name = metadata.setdefault("name", f"{prefix}{self._nodes:05}")
            found: Json = metadata.setdefault("labels", {})
            found["kubernetes.io/hostname"] = name
            if labels is not None:
                found[labels.label_key] = labels.label_values[place % len(labels.label_values)]
            if operation.unique_node_label_strategy is not None:
                found[operation.unique_node_label_strategy.label_key] = f"value-{self._nodes}"
            if operation.node_allocatable_strategy is not None:
                await self._offer(body, name, operation.node_allocatable_strategy)
            if features:
                body["status"] = {**body.get("status", {}), "declaredFeatures": features}
            await self._create(NODES, body)
            self._nodes += 1
            if place % _IN_A_ROW == 0:
                await asyncio.sleep(0)

    async def _offer(self, body: Json, name: str, offered: ops.PerfNodeAllocatable) -> None:
        """More of what a node offers, and a CSINode with the limits of its drivers."""
        status: Json = dict(body.get("status", {}))
        known = status.get("allocatable") or status.get("capacity") or {}
        status["allocatable"] = {**known, **offered.node_allocatable}
        body["status"] = status
        annotations = {_MIGRATED: ",".join(offered.migrated_plugins)} if offered.migrated_plugins else {}
        drivers = [
            {"name": driver, "nodeID": name, "allocatable": limits}
            for driver, limits in offered.csi_node_allocatable.items()
        ]
        csi_node = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSINode",
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"drivers": drivers},
        }
        await self._create(CSI_NODES, csi_node)

    # Pods

    async def _create_pods(self, number: int, operation: ops.CreatePods) -> None:
        namespace = operation.namespace or f"namespace-{number}"
        await self._ensure_namespace(namespace)
        bodies = list(self._pod_bodies(operation, operation.count))
        if operation.collect_metrics:
            self._start_collecting(namespace, [namespace], {})
        if operation.steady_state:
            await self._keep_steady(operation, namespace, bodies)
        else:
            await self._create_all(operation, namespace, bodies)
            if operation.skip_wait_to_completion:
                self._expected[namespace] += operation.count
            else:
                await self._pods.wait_scheduled(namespace, {}, operation.count)
        if operation.collect_metrics:
            self._stop_collecting()

    def _pod_bodies(self, operation: ops.CreatePods, count: int) -> Iterator[Json]:
        path = operation.pod_template_path or self._benchmark.case.default_pod_template_path
        if not path:
            yield from ({**BASE_POD} for _ in range(count))
            return
        bodies = self._manifests.many(self._benchmark.path(path), count, operation.template_params)
        for index, body in enumerate(bodies):
            labels: Json = body.setdefault("metadata", {}).setdefault("labels", {})
            labels["signature"] = f"signature-label-{index // operation.signature_batch_size}"
            yield body

    async def _create_all(self, operation: ops.CreatePods, namespace: str, bodies: Iterable[Json]) -> None:
        """Create pods, several at a time."""
        waiting = iter(enumerate(bodies))

        async def work() -> None:
            for done, (index, body) in enumerate(waiting):
                await self._create_pod(operation, namespace, index, body)
                if done % _IN_A_ROW == 0:
                    await asyncio.sleep(0)

        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(work())

    async def _create_pod(self, operation: ops.CreatePods, namespace: str, index: int, body: Json) -> None:
        if operation.persistent_volume_claim_template_path:
            await self._create_volume(operation, namespace, index)
            claim = {"claimName": f"pvc-{index}"}
            body["spec"] = {**body["spec"], "volumes": [{"name": "vol", "persistentVolumeClaim": claim}]}
        await self._create(PODS, body, namespace)

    async def _create_volume(self, operation: ops.CreatePods, namespace: str, index: int) -> None:
        """A volume and a claim that are bound to each other."""
        path = self._benchmark.path
        claim = self._manifests.one(path(operation.persistent_volume_claim_template_path))
        volume = self._manifests.one(path(operation.persistent_volume_template_path))
        claim_name, volume_name = f"pvc-{index}", f"{namespace}-vol-{index}"
        claim.setdefault("metadata", {})["name"] = claim_name
        claim["metadata"].pop("generateName", None)
        claim["spec"]["volumeName"] = volume_name
        volume.setdefault("metadata", {})["name"] = volume_name
        volume["metadata"].pop("generateName", None)
        spec: Json = volume["spec"]
        spec["claimRef"] = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": namespace,
            "name": claim_name,
        }
        if "csi" in spec:
            spec["csi"]["volumeHandle"] = volume_name
        elif "awsElasticBlockStore" in spec:
            spec["awsElasticBlockStore"]["volumeID"] = f"vol-{index}"
        bound = {"status": {"phase": "Bound"}}
        await self._create(PERSISTENT_VOLUME_CLAIMS, claim, namespace)
        await self._client.patch(PERSISTENT_VOLUME_CLAIMS, namespace, claim_name, bound, subresource="status")
        await self._create(PERSISTENT_VOLUMES, volume)
        await self._client.patch(PERSISTENT_VOLUMES, "", volume_name, bound, subresource="status")

    async def _keep_steady(self, operation: ops.CreatePods, namespace: str, bodies: list[Json]) -> None:
        """Delete every pod that got a node and create another one instead, for a while."""
        scheduled: asyncio.Queue[Pod] = asyncio.Queue()

        def note(pod: Pod) -> None:
            if pod.metadata.namespace == namespace:
                scheduled.put_nowait(pod)

        self._pods.on_scheduled = note
        count = 0
        try:
            async with asyncio.timeout(operation.seconds):
                await self._create_all(operation, namespace, bodies)
                while True:
                    pod = await scheduled.get()
                    count += 1
                    await self._client.delete(PODS, namespace, pod.metadata.name, _AT_ONCE)
                    for body in self._pod_bodies(operation, 1):
                        await self._create_pod(operation, namespace, 0, body)
                    await asyncio.sleep(0)
        except TimeoutError:
            if not count:
                raise BenchError(
                    f"no pod of namespace {namespace} got a node within {operation.duration}"
                ) from None
        finally:
            self._pods.on_scheduled = None

    async def _delete_pods(self, operation: ops.DeletePods) -> None:
        namespace = operation.namespace
        await self._pods.wait_known(namespace, self._expected[namespace])
        names = [pod.metadata.name for pod in self._pods.within(namespace, operation.label_selector)]
        pause = 1 / operation.delete_pods_per_second if operation.delete_pods_per_second else 0.0

        async def delete() -> None:
            for name in names:
                await asyncio.sleep(pause)
                await self._client.delete(PODS, namespace, name)

        if operation.skip_wait_to_completion:
            self._start(delete)
        else:
            await delete()

    async def _wait_for(self, operation: ops.Barrier) -> None:
        namespaces = operation.namespaces or list(self._expected)
        attempted = operation.stage_requirement == "Attempted"
        wait = self._pods.wait_attempted if attempted else self._pods.wait_scheduled
        for namespace in namespaces:
            if namespace not in self._namespaces:
                raise DefinitionError(f"barrier: namespaces: unknown namespace {namespace}")
            await wait(namespace, operation.label_selector, self._expected[namespace])
        if not attempted:
            for namespace in namespaces:
                del self._expected[namespace]

    # Churn

    async def _churn(self, number: int, operation: ops.Churn) -> None:
        namespace = operation.namespace or f"namespace-{number}"
        await self._ensure_namespace(namespace)
        bodies = [self._manifests.one(self._benchmark.path(path)) for path in operation.template_paths]
        if operation.mode == "create":
            self._start(partial(self._churn_by_creating, operation, namespace, bodies))
        elif operation.mode == "recreate" and operation.number > 0:
            self._start(partial(self._churn_by_recreating, operation, namespace, bodies))
        else:
            raise DefinitionError(
                f"churn: mode: expected create, or recreate with a number, got {operation.mode!r}"
            )

    async def _churn_by_creating(self, operation: ops.Churn, namespace: str, bodies: list[Json]) -> None:
        turn = 0
        while not operation.number or turn < operation.number:
            await asyncio.sleep(operation.interval_milliseconds / 1000)
            for body in bodies:
                await self._create_for_churn(namespace, body)
            turn += 1

    async def _churn_by_recreating(self, operation: ops.Churn, namespace: str, bodies: list[Json]) -> None:
        """A number of rounds of creating objects, then as many of deleting them, and so on."""
        names: list[list[str]] = [[""] * operation.number for _ in bodies]
        turn = 0
        while True:
            await asyncio.sleep(operation.interval_milliseconds / 1000)
            for body, known in zip(bodies, names, strict=True):
                place = turn % operation.number
                if known[place]:
                    resource = self._resource(body, "churn")
                    scope = namespace if resource.namespaced else ""
                    await self._client.delete(resource, scope, known[place])
                    known[place] = ""
                else:
                    known[place] = await self._create_for_churn(namespace, body)
            turn += 1

    async def _create_for_churn(self, namespace: str, body: Json) -> str:
        resource = self._resource(body, "churn")
        try:
            made = await self._create(resource, body, namespace if resource.namespaced else "")
        except ApiError as error:
            if error.reason == _ALREADY_EXISTS:
                return ""
            raise
        name: str = made["metadata"]["name"]
        return name

    def _start(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do something in the background until the workload ends."""

        async def run() -> None:
            await work()

        task = asyncio.create_task(run())
        self._background.add(task)
        task.add_done_callback(self._note_end)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._scheduler.context.logger.error("benchmark operation failed", err=task.exception())

    # Figures

    def _start_collecting(self, name: str, namespaces: list[str], selector: dict[str, str]) -> None:
        if self._pods.collecting is not None:
            raise DefinitionError("startCollectingMetrics: metrics are being collected already")
        self._collected_as = f"{self._benchmark.name}/{name}"
        self._before = histograms(self._metrics_text(), self._histograms())
        self.cpu -= process_time()
        self._pods.collecting = ScheduledTimes(namespaces, selector)

    def _stop_collecting(self) -> None:
        times = self._pods.collecting
        if times is None:
            raise DefinitionError("stopCollectingMetrics: no metrics are being collected")
        self._pods.collecting = None
        self.cpu += process_time()
        seconds = perf_counter() - times.began
        name = self._collected_as
        self.items += throughput(times, times.began, name)
        self.items += durations(self._before, histograms(self._metrics_text(), self._histograms()), name)
        self.items.append(
            DataItem({"Name": name, "Metric": "SchedulingDuration"}, {"Duration": seconds}, "s")
        )
        self.seconds += seconds
        self.measured += len(times)

    def _metrics_text(self) -> str:
        return self._scheduler.context.metrics.text().decode()

    def _histograms(self) -> Iterable[str]:
        config = self._benchmark.case.metrics_collector_config
        return HISTOGRAMS if config is None else config.get("metrics", {})
