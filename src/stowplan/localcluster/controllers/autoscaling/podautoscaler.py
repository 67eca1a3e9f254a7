"""The horizontal pod autoscaler: scales workloads to what metrics ask for."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple, Protocol

import msgspec

from stowplan.api.catalogue import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    HORIZONTAL_POD_AUTOSCALERS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Catalogue,
    Resource,
)
from stowplan.api.labels import Selector, SelectorError, compile_selector, parse_selector
from stowplan.api.meta import AnyObject, LabelSelector
from stowplan.api.quantity import BINARY_SI, DECIMAL_SI, MILLI, Quantity, milli_value_of
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.client import Client
from stowplan.localcluster.controllerruntime.controller import Controller, ControllerContext
from stowplan.localcluster.controllerruntime.events import WARNING
from stowplan.localcluster.controllerruntime.informers import Informer
from stowplan.localcluster.controllers.autoscaling.replicacalculator import (
    MetricsError,
    PodMetric,
    ReplicaProposal,
    average_replicas,
    utilization_replicas,
)
from stowplan.localcluster.controllers.autoscaling.scalingbehavior import ScalingHistory, tolerances_of
from stowplan.localcluster.controllers.customkinds import resource_of
from stowplan.localcluster.objects.fields import (
    count_in,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    spec_of,
    split_key,
    status_of,
    time_of,
    with_condition,
)
from stowplan.localcluster.objects.usage import POD_METRICS, WINDOW, PretendUsage
from stowplan.runtime.clock import Clock


class ScalePaths(NamedTuple):
    """Where objects of a kind say how many pods they are to have, and which these are."""

    replicas: str = ".spec.replicas"
    selector: str = ""


class ScaleTarget(NamedTuple):
    """Target of an autoscaler. Without a path the selector is that of a built-in workload."""

    resource: Resource
    object: Json
    paths: ScalePaths = ScalePaths()

    @property
    def replicas(self) -> int:
        found = _at(self.object, self.paths.replicas)
        if found is None:
            return 0 if self.resource.custom else 1
        return int(found)

    def scaled_to(self, replicas: int) -> Json:
        """The change that sets its replicas."""
        change: Any = replicas
        for part in reversed(self.paths.replicas.strip(".").split(".")):
            change = {part: change}
        return dict(change)

    def selector(self) -> Selector | None:
        """Which pods are its own, None if it does not say. Raises SelectorError."""
        if self.resource.custom:
            text = _at(self.object, self.paths.selector) if self.paths.selector else None
            return parse_selector(text) if text else None
        given = spec_of(self.object).get("selector") or {}
        if self.resource == REPLICATION_CONTROLLERS:
            given = {"matchLabels": given}
        return compile_selector(msgspec.convert(given, LabelSelector))


def _at(obj: Any, path: str) -> Any:
    """Value at a path such as `.spec.replicas`, None if there is none."""
    for part in path.strip(".").split("."):
        obj = obj.get(part) if isinstance(obj, dict) else None
    return obj


def custom_target(definition: Json, kind: str) -> tuple[Resource, ScalePaths] | None:
    """The resource of a definition and its scale, None if it has none or defines another kind."""
    resource = resource_of(definition)
    if resource is None or (definition["spec"].get("names") or {}).get("kind") != kind:
        return None
    for version in definition["spec"].get("versions") or ():
        scale = (version.get("subresources") or {}).get("scale")
        if version["name"] == resource.version and scale:
            return resource, ScalePaths(scale["specReplicasPath"], scale.get("labelSelectorPath") or "")
    return None


PERIOD: Final = 15.0
"""Seconds between two looks at an autoscaler."""

_SCALED: Final = (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, REPLICATION_CONTROLLERS)
_ABLE: Final = "AbleToScale"
_ACTIVE: Final = "ScalingActive"
_LIMITED: Final = "ScalingLimited"
_NOT_FOUND: Final = "the server could not find the requested resource"


class ResourceMetrics(Protocol):
    """Where the usage of pods is known."""

    async def usage(self, namespace: str) -> Mapping[str, tuple[float, float, Mapping[str, Json]]]:
        """Of the pods in a namespace: when, over how many seconds, and the usage of their containers.

        Raises MetricsError.
        """


PodUsage = Mapping[str, tuple[float, float, Mapping[str, Json]]]


class ServedMetrics:
    """Metrics from the server of metrics.k8s.io."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def usage(self, namespace: str) -> PodUsage:
        try:
            found = await self._client.list(POD_METRICS, AnyObject, namespace=namespace)
        except ApiError as error:
            text = _NOT_FOUND if error.is_not_found else error.message
            raise MetricsError(f"{text} (get {POD_METRICS.qualified})") from error
        return {
            one.metadata.name: (time_of(one.data.get("timestamp")), WINDOW, _by_container(one.data))
            for one in found.items
        }


class PretendMetrics:
    """Metrics of simulated pods, without the way over the API."""

    def __init__(self, pods: Informer, usage: PretendUsage, clock: Clock) -> None:
        self._pods = pods
        self._usage = usage
        self._clock = clock

    async def usage(self, namespace: str) -> PodUsage:
        found: dict[str, tuple[float, float, Mapping[str, Json]]] = {}
        for pod in self._pods.in_namespace[namespace].values():
            containers = self._usage.of(pod)
            if containers is not None:
                used = {
                    one.name: {"cpu": f"{one.cpu}m", "memory": f"{one.memory // 1000}"} for one in containers
                }
                found[name_of(pod)] = (self._clock.now(), WINDOW, used)
        return found


def _by_container(metrics: Json) -> dict[str, Json]:
    return {one.get("name", ""): one.get("usage") or {} for one in metrics.get("containers") or ()}


class MetricFailure(Exception):  # noqa: N818 - a metric failed, not this program
    """A metric without a value: the reason for its condition, and its message."""

    def __init__(self, reason: str, problem: str, what: str) -> None:
        super().__init__(f"{what}: {problem}")
        self.reason = reason
        self.problem = problem


class Reading(NamedTuple):
    """A metric's proposal, its name in messages, and its status."""

    proposal: ReplicaProposal
    name: str
    status: Json


class HorizontalPodAutoscalerController(Controller):
    """Looks at every autoscaler in turn, some time after the last look."""

    name: ClassVar[str] = "horizontal-pod-autoscaler"
    workers: ClassVar[int] = 5

    def __init__(
        self, context: ControllerContext, usage: PretendUsage | None = None, *, period: float = PERIOD
    ) -> None:
        super().__init__(context)
        self._period = period
        self.autoscalers = self.informer(HORIZONTAL_POD_AUTOSCALERS)
        self.pods = self.informer(PODS)
        self._metrics: ResourceMetrics
        if usage is None:
            self._metrics = ServedMetrics(context.client)
        else:
            self._metrics = PretendMetrics(self.pods, usage, context.clock)
        self._catalogue = Catalogue()
        self._definitions = self.informer(CUSTOM_RESOURCE_DEFINITIONS)
        self._histories: dict[str, ScalingHistory] = {}
        self._selectors: dict[str, Selector] = {}
        self.autoscalers.add_handler(self._autoscaler_changed)

    def _autoscaler_changed(self, old: Json | None, new: Json | None) -> None:
        if new is not None:
            self.queue.add_after(key_of(new), self._period)
        elif old is not None:
            self._histories.pop(key_of(old), None)
            self._selectors.pop(key_of(old), None)

    async def sync(self, key: str) -> None:
        hpa = self.autoscalers.get(key)
        if hpa is None:
            return
        self.queue.add_after(key, self._period)
        await _Look(self, hpa, self._histories.setdefault(key, ScalingHistory())).run()

    # Inputs of a sync

    async def target_of(self, hpa: Json) -> ScaleTarget:
        """The workload of an autoscaler. Raises MetricsError."""
        reference = spec_of(hpa)["scaleTargetRef"]
        group = reference.get("apiVersion", "").rpartition("/")[0]
        kind = reference.get("kind", "")
        resource, paths = self._scaled_kind(group, kind)
        try:
            found = await self.client.get(resource, namespace_of(hpa), reference.get("name", ""))
        except ApiError as error:
            raise MetricsError(error.message) from error
        return ScaleTarget(resource, found, paths)

    def _scaled_kind(self, group: str, kind: str) -> tuple[Resource, ScalePaths]:
        """The resource of a kind that can be scaled. Raises MetricsError."""
        known = [one for one in self._catalogue if (one.group, one.kind) == (group, kind)]
        defined = [one for one in self._definitions if spec_of(one).get("group") == group]
        custom = [found for one in defined if (found := custom_target(one, kind)) is not None]
        if custom:
            return custom[0]
        resource = next((one for one in known if one in _SCALED), None)
        if resource is not None:
            return resource, ScalePaths()
        if known or any((spec_of(one).get("names") or {}).get("kind") == kind for one in defined):
            raise MetricsError(_NOT_FOUND)
        raise MetricsError(f'no matches for kind "{kind}" in group "{group}"')

    def pods_of(self, hpa: Json, selector: Selector) -> list[Json]:
        here = self.pods.in_namespace[namespace_of(hpa)].values()
        return [pod for pod in here if selector.matches(labels_of(pod))]

    def sharing(self, hpa: Json, selector: Selector) -> list[str]:
        """Two autoscalers of the same pods, or none if this one is alone with its pods."""
        mine = key_of(hpa)
        self._selectors[mine] = selector
        pods = self.pods_of(hpa, selector)
        for key, other in self._selectors.items():
            namespace, name = split_key(key)
            if key == mine or namespace != namespace_of(hpa):
                continue
            if any(other.matches(labels_of(pod)) for pod in pods):
                return sorted((name_of(hpa), name))
        return []

    async def pod_metrics(
        self, pods: Sequence[Json], namespace: str, resource: str, container: str
    ) -> dict[str, PodMetric]:
        """A resource's metric of some pods, or of one container in each. Raises MetricsError."""
        try:
            known = await self._metrics.usage(namespace)
        except MetricsError as error:
            raise MetricsError(f"unable to fetch metrics from resource metrics API: {error}") from error
        names = {name_of(pod) for pod in pods}
        found = {name: usage for name, usage in known.items() if name in names}
        if not found:
            raise MetricsError("no metrics returned from resource metrics API")
        metrics: dict[str, PodMetric] = {}
        for name, (time, window, containers) in found.items():
            wanted = [containers.get(container)] if container else list(containers.values())
            amounts = [(usage or {}).get(resource) for usage in wanted]
            if amounts and None not in amounts:
                total = sum(milli_value_of(amount) for amount in amounts if amount is not None)
                metrics[name] = PodMetric(time, window, total)
        return metrics


class _Look:
    """One look at an autoscaler: its conditions and status as they come about."""

    def __init__(
        self, controller: HorizontalPodAutoscalerController, hpa: Json, history: ScalingHistory
    ) -> None:
        self._controller = controller
        self._hpa = hpa
        self._history = history
        self._conditions: list[Json] = list(status_of(hpa).get("conditions") or ())
        self._now = controller.monotonic()

    async def run(self) -> None:
        try:
            target = await self._controller.target_of(self._hpa)
        except MetricsError as error:
            await self._tell("FailedGetScale", str(error))
            message = f"the HPA controller was unable to get the target's current scale: {error}"
            self._set(_ABLE, "False", "FailedGetScale", message)
            await self._write({})
            return
        able = "the HPA controller was able to get the target's current scale"
        self._set(_ABLE, "True", "SucceededGetScale", able)
        self._history.begin(target.replicas, self._now)
        await self._scale(target)

    async def _scale(self, target: ScaleTarget) -> None:
        current = target.replicas
        least, most = count_in(spec_of(self._hpa), "minReplicas", 1), int(spec_of(self._hpa)["maxReplicas"])
        if current == 0:
            message = "scaling is disabled since the replica count of the target is zero"
            self._set(_ACTIVE, "False", "ScalingDisabled", message)
            await self._write_status(current, 0)
        elif current > most:
            reason = "Current number of replicas above Spec.MaxReplicas"
            await self._rescale(target, most, reason, None)
        elif current < least:
            reason = "Current number of replicas below Spec.MinReplicas"
            await self._rescale(target, least, reason, None)
        else:
            await self._scale_by_metrics(target, least)

    async def _scale_by_metrics(self, target: ScaleTarget, least: int) -> None:
        current = target.replicas
        statuses: list[Json] = []
        try:
            proposed, name = await self._proposal(target, statuses)
        except MetricsError as error:
            desired = count_in(status_of(self._hpa), "desiredReplicas")
            await self._write_status(current, desired, statuses)
            await self._tell("FailedComputeMetricsReplicas", str(error))
            return
        reason = f"{name} above target" if proposed > current else "All metrics below target"
        desired = self._normalized(current, proposed, least)
        if desired == current:
            await self._write_status(current, current, statuses)
        else:
            await self._rescale(target, desired, reason, statuses)

    async def _proposal(self, target: ScaleTarget, statuses: list[Json]) -> tuple[int, str]:
        """The most replicas that a metric asks for, and that metric's name. Raises MetricsError.

        Metrics without a value do not matter if the others ask for more replicas.
        """
        specs = spec_of(self._hpa).get("metrics") or ()
        selector = await self._selector(target)
        await self._check_alone(selector)
        best: Reading | None = None
        failures: list[MetricFailure] = []
        for spec in specs:
            try:
                reading = await self._read(spec, target, selector)
            except MetricFailure as failure:
                await self._tell(failure.reason, failure.problem)
                failures.append(failure)
                statuses.append({"type": ""})
                continue
            statuses.append(reading.status)
            if best is None or reading.proposal.replicas > best.proposal.replicas:
                best = reading
        if best is None or (failures and best.proposal.replicas < target.replicas):
            first = failures[0] if failures else None
            if first is not None:
                message = f"the HPA was unable to compute the replica count: {first.problem}"
                self._set(_ACTIVE, "False", first.reason, message)
            raise MetricsError(
                f"invalid metrics ({len(failures)} invalid out of {len(specs)}), first error is: {first}"
            )
        message = f"the HPA was able to successfully calculate a replica count from {best.name}"
        self._set(_ACTIVE, "True", "ValidMetricFound", message)
        return best.proposal.replicas, best.name

    async def _selector(self, target: ScaleTarget) -> Selector:
        """Which pods the target has. Raises MetricsError."""
        try:
            selector = target.selector()
        except SelectorError as error:
            problem = f"couldn't convert selector into a corresponding internal selector object: {error}"
            await self._tell("InvalidSelector", problem)
            self._set(_ACTIVE, "False", "InvalidSelector", problem)
            raise MetricsError(problem) from error
        if selector is None:
            await self._tell("SelectorRequired", "selector is required")
            message = "the HPA target's scale is missing a selector"
            self._set(_ACTIVE, "False", "InvalidSelector", message)
            raise MetricsError("selector is required")
        return selector

    async def _check_alone(self, selector: Selector) -> None:
        """Raises MetricsError if another autoscaler scales by the same pods."""
        sharing = self._controller.sharing(self._hpa, selector)
        if sharing:
            shown = " ".join(f"{{{name} {namespace_of(self._hpa)}}}" for name in sharing)
            problem = f"pods by selector {selector} are controlled by more than one HPA (e.g. [{shown}])"
            await self._tell("AmbiguousSelector", problem)
            self._set(_ACTIVE, "False", "AmbiguousSelector", problem)
            raise MetricsError(problem)

    # Metrics

    async def _read(self, spec: Json, target: ScaleTarget, selector: Selector) -> Reading:
        """Reading of a metric. Raises MetricFailure."""
        kind = spec.get("type")
        if kind in ("Resource", "ContainerResource"):
            return await self._read_resource(spec, target, selector)
        source = spec.get(str(kind)[:1].lower() + str(kind)[1:]) or {}
        named = (source.get("metric") or {}).get("name", "")
        custom = "unable to fetch metrics from custom metrics API: "
        custom += "no custom metrics API (custom.metrics.k8s.io) registered"
        if kind == "Pods":
            problem = f"unable to get metric {named}: {custom}"
            raise MetricFailure("FailedGetPodsMetric", problem, "failed to get pods metric value")
        if kind == "Object":
            described = source.get("describedObject") or {}
            where = f"{described.get('kind')} {namespace_of(self._hpa)}/{described.get('name')}"
            problem = f"unable to get metric {named} on {where}: {custom}"
            raise MetricFailure("FailedGetObjectMetric", problem, "failed to get object metric value")
        if kind == "External":
            shown = _shown_selector((source.get("metric") or {}).get("selector"))
            problem = (
                f"unable to get external metric {namespace_of(self._hpa)}/{named}/{shown}: unable to fetch "
                f"metrics from external metrics API: {_NOT_FOUND} (get {named}.external.metrics.k8s.io)"
            )
            raise MetricFailure(
                "FailedGetExternalMetric", problem, f"failed to get {named} external metric value"
            )
        problem = f'unknown metric source type "{kind}"'
        raise MetricFailure("InvalidMetricSourceType", problem, problem)

    async def _read_resource(self, spec: Json, target: ScaleTarget, selector: Selector) -> Reading:
        of_container = spec["type"] == "ContainerResource"
        source = spec["containerResource" if of_container else "resource"]
        resource, container = source.get("name", ""), source.get("container", "") if of_container else ""
        wanted = source.get("target") or {}
        pods = self._controller.pods_of(self._hpa, selector)
        by_value = "averageValue" in wanted
        try:
            metrics = await self._metrics_for(pods, resource, container)
            proposal = self._calculated(target, wanted, pods, metrics, resource, container)
        except MetricsError as error:
            reason = "FailedGetContainerResourceMetric" if of_container else "FailedGetResourceMetric"
            problem = f"failed to get {resource} {'usage' if by_value else 'utilization'}: {error}"
            if of_container:
                raise MetricFailure(
                    reason, problem, f"failed to get {container} container metric value"
                ) from error
            raise MetricFailure(reason, problem, f"failed to get {resource} resource metric value") from error
        name = f"{resource} resource"
        if not by_value:
            of = "container resource" if of_container else "resource"
            name = f"{resource} {of} utilization (percentage of request)"
        return Reading(proposal, name, _resource_status(spec, proposal))

    async def _metrics_for(self, pods: Sequence[Json], resource: str, container: str) -> dict[str, PodMetric]:
        try:
            return await self._controller.pod_metrics(pods, namespace_of(self._hpa), resource, container)
        except MetricsError as error:
            raise MetricsError(f"unable to get metrics for resource {resource}: {error}") from error

    def _calculated(
        self,
        target: ScaleTarget,
        wanted: Json,
        pods: Sequence[Json],
        metrics: Mapping[str, PodMetric],
        resource: str,
        container: str,
    ) -> ReplicaProposal:
        tolerances, now = tolerances_of(self._hpa), self._controller.now()
        if "averageValue" in wanted:
            amount = milli_value_of(wanted["averageValue"])
            return average_replicas(target.replicas, amount, pods, metrics, resource, tolerances, now)
        percent = wanted["averageUtilization"]
        return utilization_replicas(
            target.replicas, percent, pods, metrics, resource, container, tolerances, now
        )

    # Scaling

    def _normalized(self, current: int, desired: int, least: int) -> int:
        stable = self._history.stabilized(self._hpa, current, desired, self._now)
        if stable.replicas != desired:
            self._set(_ABLE, "True", stable.reason, stable.message)
        else:
            self._set(_ABLE, "True", "ReadyForNewScale", "recommended size matches current size")
        limited = self._history.limited(self._hpa, current, stable.replicas, least, self._now)
        is_limited = "False" if limited.replicas == stable.replicas else "True"
        self._set(_LIMITED, is_limited, limited.reason, limited.message)
        return limited.replicas

    async def _rescale(
        self, target: ScaleTarget, desired: int, reason: str, statuses: list[Json] | None
    ) -> None:
        current = target.replicas
        try:
            await self._controller.change(
                target.resource, target.object, target.scaled_to(desired), guarded=False
            )
        except ApiError as error:
            note = f"New size: {desired}; reason: {reason}; error: {error.message}"
            await self._tell("FailedRescale", note)
            message = f"the HPA controller was unable to update the target scale: {error.message}"
            self._set(_ABLE, "False", "FailedUpdateScale", message)
            before = count_in(status_of(self._hpa), "desiredReplicas")
            await self._write_status(current, before, statuses)
            raise
        message = f"the HPA controller was able to update the target scale to {desired}"
        self._set(_ABLE, "True", "SucceededRescale", message)
        note = f"New size: {desired}; reason: {reason}"
        await self._controller.record_event(self._hpa, "SuccessfulRescale", note)
        self._history.scaled(self._hpa, current, desired, self._now)
        await self._write_status(current, desired, statuses, scaled=True)

    # Status

    def _set(self, kind: str, status: str, reason: str, message: str) -> None:
        new = {"type": kind, "status": status, "reason": reason, "message": message}
        self._conditions = with_condition(self._conditions, new, self._controller.stamp())

    async def _tell(self, reason: str, message: str) -> None:
        await self._controller.record_event(self._hpa, reason, message, WARNING)

    async def _write_status(
        self, current: int, desired: int, metrics: list[Json] | None = None, *, scaled: bool = False
    ) -> None:
        status: Json = {
            "currentReplicas": current or None,
            "desiredReplicas": desired,
            "currentMetrics": metrics or None,
        }
        if scaled:
            status["lastScaleTime"] = self._controller.stamp()
        await self._write(status)

    async def _write(self, status: Json) -> None:
        status["conditions"] = self._conditions
        await self._controller.set_status(HORIZONTAL_POD_AUTOSCALERS, self._hpa, status)


def _resource_status(spec: Json, proposal: ReplicaProposal) -> Json:
    field = "containerResource" if spec["type"] == "ContainerResource" else "resource"
    source = spec[field]
    form = BINARY_SI if source.get("name") == "memory" else DECIMAL_SI
    current: Json = {"averageValue": str(Quantity(proposal.average, MILLI, form))}
    if proposal.utilization is not None:
        current["averageUtilization"] = proposal.utilization
    named = {name: source[name] for name in ("name", "container") if name in source}
    return {"type": spec["type"], field: {**named, "current": current}}


def _shown_selector(selector: Any) -> str:
    """A selector as Go prints a pointer to one."""
    if selector is None:
        return "nil"
    labels = "".join(f"{key}: {value}," for key, value in sorted((selector.get("matchLabels") or {}).items()))
    expressions = "MatchExpressions:[]LabelSelectorRequirement{}"
    return f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},{expressions},}}"
