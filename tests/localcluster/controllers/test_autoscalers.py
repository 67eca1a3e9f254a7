"""Horizontal pod autoscalers: the arithmetic, the rates, and what becomes of a deployment."""

from collections.abc import Sequence
from typing import Any

import pytest

from localcluster.controllers.small_clusters import World, live, selecting, template
from stowplan.api.catalogue import DEPLOYMENTS, EVENTS, HORIZONTAL_POD_AUTOSCALERS, PODS
from stowplan.api.requests import Json
from stowplan.localcluster.controllerruntime.controller import Controller, ControllerContext
from stowplan.localcluster.controllers.autoscaling.podautoscaler import (
    HorizontalPodAutoscalerController,
    ScaleTarget,
    custom_target,
)
from stowplan.localcluster.controllers.autoscaling.replicacalculator import (
    MetricsError,
    PodMetric,
    Tolerances,
    average_replicas,
    pod_request,
    utilization_replicas,
)
from stowplan.localcluster.controllers.autoscaling.scalingbehavior import ScalingHistory
from stowplan.localcluster.controllers.workloads.deployment import DeploymentController
from stowplan.localcluster.controllers.workloads.replicaset import ReplicaSetController
from stowplan.localcluster.kubelets import Kubelets, NodeShape
from stowplan.localcluster.objects.fields import condition_of
from stowplan.localcluster.objects.usage import PretendUsage, usage_list, usage_problem

START = "2026-01-01T00:00:00Z"
NOW = 1767225600.0 + 3600
"""An hour after the start."""


def pod(name: str, phase: str = "Running", ready: str = "True", cpu: str | None = "100m") -> Json:
    requests = {"cpu": cpu} if cpu is not None else {}
    container = {"name": "c", "resources": {"requests": requests}}
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": START}
    status = {"phase": phase, "startTime": START, "conditions": [condition]}
    return {"metadata": {"name": name}, "spec": {"containers": [container]}, "status": status}


def metrics(**used: int) -> dict[str, PodMetric]:
    return {name: PodMetric(NOW, 15.0, value) for name, value in used.items()}


@pytest.mark.parametrize(
    ("pods", "used", "replicas"),
    [
        ([pod("a"), pod("b")], metrics(a=50, b=50), 2),
        ([pod("a"), pod("b")], metrics(a=54, b=55), 2),
        ([pod("a"), pod("b")], metrics(a=100, b=100), 4),
        ([pod("a"), pod("b")], metrics(a=10, b=10), 1),
        ([pod("a"), pod("b")], metrics(a=100), 2),
        ([pod("a"), pod("b")], metrics(a=200), 4),
        ([pod("a"), pod("b")], metrics(a=10), 2),
        ([pod("a"), pod("b", "Pending")], metrics(a=200), 4),
        ([pod("a"), pod("b", "Failed")], metrics(a=100), 2),
    ],
    ids=[
        "at the target",
        "within the tolerance",
        "twice the target",
        "far below",
        "one without metrics counts as idle when scaling up",
        "and still twice as much is needed",
        "one without metrics counts as busy when scaling down",
        "one that is not running yet counts as idle",
        "one that failed does not count",
    ],
)
def test_replicas_for_half_of_the_requests(
    pods: list[Json], used: dict[str, PodMetric], replicas: int
) -> None:
    found = utilization_replicas(2, 50, pods, used, "cpu", "", Tolerances(), NOW)
    assert found.replicas == replicas


def test_replicas_for_an_amount_per_pod() -> None:
    found = average_replicas(2, 100, [pod("a"), pod("b")], metrics(a=150, b=250), "memory", Tolerances(), NOW)
    assert (found.replicas, found.average, found.utilization) == (4, 200, None)


@pytest.mark.parametrize(
    ("pods", "used", "message"),
    [
        ([], {}, "no pods returned by selector while calculating replica count"),
        ([pod("a")], {}, "did not receive metrics for targeted pods (pods might be unready)"),
        ([pod("a", cpu=None)], metrics(a=1), "missing request for cpu in container c of Pod a"),
    ],
)
def test_what_keeps_a_metric_from_having_a_value(
    pods: list[Json], used: dict[str, PodMetric], message: str
) -> None:
    with pytest.raises(MetricsError) as refused:
        utilization_replicas(2, 50, pods, used, "cpu", "", Tolerances(), NOW)
    assert str(refused.value) == message


def test_requests_of_one_container_and_of_the_pod_as_a_whole() -> None:
    with pytest.raises(MetricsError, match="container x not found in Pod a"):
        pod_request(pod("a"), "x", "cpu")
    whole = pod("a")
    whole["spec"]["resources"] = {"requests": {"cpu": "2"}}
    assert (pod_request(whole, "", "cpu"), pod_request(whole, "c", "cpu")) == (2000, 100)


def autoscaler(behavior: Json | None = None, **spec: Any) -> Json:
    full = {"minReplicas": 1, "maxReplicas": 100, **spec}
    return {"spec": full if behavior is None else {**full, "behavior": behavior}}


PODS_2 = {"policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}]}


@pytest.mark.parametrize(
    ("behavior", "current", "desired", "replicas", "reason"),
    [
        (None, 3, 20, 6, "ScaleUpLimit"),
        (None, 1, 20, 4, "ScaleUpLimit"),
        (None, 60, 300, 100, "TooManyReplicas"),
        (None, 3, 0, 1, "TooFewReplicas"),
        (None, 3, 2, 2, "DesiredWithinRange"),
        ({"scaleUp": PODS_2}, 3, 20, 5, "ScaleUpLimit"),
        ({"scaleDown": PODS_2}, 10, 1, 8, "ScaleDownLimit"),
        ({"scaleUp": {"selectPolicy": "Disabled"}}, 3, 20, 3, "ScaleUpLimit"),
        ({"scaleUp": {"selectPolicy": "Min"}}, 10, 50, 14, "ScaleUpLimit"),
        ({"scaleUp": {"selectPolicy": "Max"}}, 10, 50, 20, "ScaleUpLimit"),
    ],
)
def test_the_rates_at_which_replicas_may_change(
    behavior: Json | None, current: int, desired: int, replicas: int, reason: str
) -> None:
    limited = ScalingHistory().limited(autoscaler(behavior), current, desired, 1, 0.0)
    assert (limited.replicas, limited.reason) == (replicas, reason)


def test_policies_count_what_was_done_within_their_period() -> None:
    hpa, history = autoscaler({"scaleUp": PODS_2}), ScalingHistory()
    history.scaled(hpa, 3, 5, 100.0)
    assert history.limited(hpa, 5, 20, 1, 130.0).replicas == 5
    assert history.limited(hpa, 5, 20, 1, 161.0).replicas == 7


def test_scaling_down_follows_the_highest_recommendation_of_five_minutes() -> None:
    hpa, history = autoscaler(), ScalingHistory()
    history.begin(5, 0.0)
    assert history.stabilized(hpa, 5, 2, 10.0).replicas == 5
    assert history.stabilized(hpa, 5, 3, 301.0).replicas == 3
    assert history.stabilized(hpa, 5, 9, 302.0).replicas == 9


def test_windows_of_the_behavior_take_the_place_of_the_default() -> None:
    hpa = autoscaler(
        {"scaleDown": {"stabilizationWindowSeconds": 0}, "scaleUp": {"stabilizationWindowSeconds": 60}}
    )
    history = ScalingHistory()
    history.begin(5, 0.0)
    assert history.stabilized(hpa, 5, 2, 10.0).replicas == 2
    assert history.stabilized(hpa, 2, 9, 20.0).replicas == 2
    assert history.stabilized(hpa, 2, 9, 80.0).replicas == 9


ROLLOUTS: Json = {
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "Rollout"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "scale": {"specReplicasPath": ".spec.size", "labelSelectorPath": ".status.selector"}
                },
            }
        ],
    },
    "status": {
        "acceptedNames": {"plural": "rollouts", "kind": "Rollout"},
        "conditions": [{"type": "Established", "status": "True"}],
    },
}


def test_custom_resources_with_a_scale_can_be_targets() -> None:
    found = custom_target(ROLLOUTS, "Rollout")
    assert found is not None
    resource, paths = found
    target = ScaleTarget(resource, {"spec": {"size": 3}, "status": {"selector": "app=a"}}, paths)
    selector = target.selector()
    assert selector is not None
    assert (target.replicas, selector.matches({"app": "a"}), selector.matches({})) == (3, True, False)
    assert target.scaled_to(5) == {"spec": {"size": 5}}
    assert ScaleTarget(resource, {}, paths).selector() is None
    assert custom_target(ROLLOUTS, "Other") is None


# Pretend usage


@pytest.mark.parametrize(
    ("annotations", "cpu"),
    [
        ({}, [50, 1]),
        ({"pretend.stowplan.io/cpu-usage": "80%"}, [80, 0]),
        ({"pretend.stowplan.io/cpu-usage": "30m"}, [30, 0]),
        ({"pretend.stowplan.io/cpu-usage": "2"}, [2000, 0]),
        ({"pretend.stowplan.io/cpu-usage": "much"}, [50, 1]),
    ],
)
def test_pods_use_what_their_annotations_say_or_a_part_of_their_requests(
    annotations: dict[str, str], cpu: list[int]
) -> None:
    made = pod("a")
    made["metadata"]["annotations"] = annotations
    made["spec"]["containers"].append({"name": "idle"})
    used = PretendUsage(0.5).of(made)
    assert used is not None
    assert [one.cpu for one in used] == cpu
    assert bool(usage_problem(annotations)) == ("much" in annotations.values())


def test_pods_that_do_not_run_use_nothing() -> None:
    assert PretendUsage().of(pod("a", "Pending")) is None
    assert usage_list(1500, 3 * 2**20 * 1000) == {"cpu": "1500m", "memory": "3Mi"}


# Over a store


def scaled_world(usage: PretendUsage | None) -> Any:
    def controllers(context: ControllerContext) -> Sequence[Controller]:
        autoscalers = HorizontalPodAutoscalerController(context, usage)
        return [DeploymentController(context), ReplicaSetController(context), autoscalers]

    return controllers


def kubelets(world: World) -> Kubelets:
    from random import Random

    return Kubelets(world.client, [NodeShape(count=2, name="n", cpu="64")], clock=world.clock, rng=Random(1))


def make(world: World, **spec: Any) -> None:
    full = {"replicas": 2, "selector": selecting(), "template": template()}
    world.put(DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": full})
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
    metric = {"type": "Resource", "resource": cpu}
    hpa = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 10, "metrics": [metric], **spec}
    world.put(HORIZONTAL_POD_AUTOSCALERS, {"metadata": {"name": "web"}, "spec": hpa})


def active(world: World) -> tuple[str, str]:
    condition = condition_of(world.get(HORIZONTAL_POD_AUTOSCALERS, "web"), "ScalingActive") or {}
    return condition.get("status", ""), condition.get("reason", "")


def test_a_deployment_grows_with_the_usage_of_its_pods_and_shrinks_after_five_minutes() -> None:
    async def story(world: World) -> None:
        make(world)
        await world.until(lambda: len(world.pods("Running")) == 2)
        for one in world.pods():
            annotations = {"pretend.stowplan.io/cpu-usage": "150%"}
            world.patch(PODS, one["metadata"]["name"], {"metadata": {"annotations": annotations}})
        await world.until(lambda: len(world.pods("Running")) == 6, 60)
        status = world.get(HORIZONTAL_POD_AUTOSCALERS, "web")["status"]
        assert status["currentMetrics"][0]["resource"]["name"] == "cpu"
        assert active(world) == ("True", "ValidMetricFound")
        for one in world.pods():
            world.patch(
                PODS,
                one["metadata"]["name"],
                {"metadata": {"annotations": {"pretend.stowplan.io/cpu-usage": "1m"}}},
            )
        began = world.now
        await world.until(lambda: world.get(DEPLOYMENTS, "web")["spec"]["replicas"] == 1, 600)
        assert 270 < world.now - began < 400

    live(story, scaled_world(PretendUsage(0.5)), scheduler=True, beside=kubelets)


def test_without_metrics_only_the_bounds_of_the_spec_are_kept() -> None:
    async def story(world: World) -> None:
        make(world, minReplicas=3)
        await world.until(lambda: len(world.pods("Running")) == 3, 60)
        await world.until(lambda: active(world) == ("False", "FailedGetResourceMetric"), 60)
        reasons = {event["reason"] for event in world.all(EVENTS)}
        assert {"SuccessfulRescale", "FailedGetResourceMetric", "FailedComputeMetricsReplicas"} <= reasons
        world.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 0}})
        await world.until(lambda: active(world) == ("False", "ScalingDisabled"), 60)

    live(story, scaled_world(None), scheduler=True, beside=kubelets)


def test_a_target_that_does_not_exist_is_told() -> None:
    async def story(world: World) -> None:
        make(world, scaleTargetRef={"apiVersion": "apps/v1", "kind": "Deployment", "name": "none"})
        await world.settle(20)
        able = condition_of(world.get(HORIZONTAL_POD_AUTOSCALERS, "web"), "AbleToScale") or {}
        assert able["reason"] == "FailedGetScale"
        assert 'deployments.apps "none" not found' in able["message"]

    live(story, scaled_world(None))
