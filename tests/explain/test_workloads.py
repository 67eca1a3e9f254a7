"""A workload answers as a workload: the first layer that does not go on, and its pods by cause."""

import asyncio
from typing import Any

import pytest

from stowplan.api.admission import LimitRange, ResourceQuota
from stowplan.api.decode import convert
from stowplan.api.meta import Object
from stowplan.api.names import closest
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.api.workloads import (
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    PriorityClass,
    ReplicaSet,
    StatefulSet,
)
from stowplan.api.writes import Event
from stowplan.explain.document.pod import PodDocument
from stowplan.explain.document.workload import WorkloadDocument
from stowplan.explain.explainers.workload import MOST_EXPLAINED, explain_workload
from stowplan.explain.layers.reads import DumpReads
from stowplan.explain.layers.refusals import refusal_of
from stowplan.explain.sentences.pod import told_pod
from stowplan.explain.terminal.workload import render_workload


def made(cls: type[Any], name: str, *, owner: str = "", **fields: Any) -> Any:
    """An object of the namespace `shop`; `owner` is such as `ReplicaSet/web-1`."""
    kind, _, of = owner.partition("/")
    owners = [{"kind": kind, "name": of, "controller": True, "apiVersion": "apps/v1"}] if owner else []
    metadata = {
        "name": name,
        "namespace": "shop",
        "ownerReferences": owners,
        "labels": fields.pop("labels", {}),
    }
    return convert({"metadata": metadata, **fields}, cls)


def pod(name: str, owner: str, *, node: str = "n0", ready: bool = True, **fields: Any) -> Any:
    if not node:
        status: Any = {"phase": "Pending"}
    else:
        status = {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        }
    return made(
        Pod, name, owner=owner, spec={"nodeName": node, **fields}, status=fields.pop("status", status)
    )


def refused(obj: str, note: str) -> Event:
    kind, _, name = obj.partition("/")
    fields = {"kind": kind, "name": name, "namespace": "shop"}
    event: Event = made(
        Event, f"{name}.1", regarding=fields, reason="FailedCreate", type="Warning", note=note
    )
    return event


def answer(target: str, *objects: Object, pods: Any = ()) -> WorkloadDocument | None:
    kind, _, name = target.partition("/")

    async def explain(one: Pod) -> PodDocument:
        found = PodDocument(pod=one.key, state="pending", source="", message=f"wants {one.spec.priority}")
        return told_pod(found)

    return asyncio.run(
        explain_workload(kind, "shop", name, pods, DumpReads((*objects, *pods)), explain, "a test")
    )


def headline(target: str, *objects: Object, pods: Any = ()) -> str:
    found = answer(target, *objects, pods=pods)
    assert found is not None
    return found.headline


FORBIDDEN = 'Error creating: pods "web-1-" is forbidden: '
DEPLOYMENT = made(Deployment, "web", spec={"replicas": 3})


def replica_set(name: str, replicas: int, failure: str = "") -> Any:
    failed = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": failure}
    status = {"conditions": [failed] if failure else []}
    return made(ReplicaSet, name, owner="Deployment/web", spec={"replicas": replicas}, status=status)


def test_a_healthy_workload_is_a_number() -> None:
    pods = [pod(f"web-1-{number}", "ReplicaSet/web-1") for number in range(3)]
    found = answer("Deployment/web", DEPLOYMENT, replica_set("web-1", 3), pods=pods)
    assert found is not None
    assert found.headline == "Deployment shop/web: 3 of 3 pods run"
    assert (found.state, found.stopped_at, found.causes, found.remedy) == ("running", None, (), "")


def test_pods_that_wait_are_grouped_by_cause() -> None:
    pods = [pod("web-1-0", "ReplicaSet/web-1")]
    pods += [pod(f"web-1-{n}", "ReplicaSet/web-1", node="", priority=5) for n in (1, 2)]
    found = answer("Deployment/web", DEPLOYMENT, replica_set("web-1", 3), pods=pods)
    assert found is not None
    assert found.headline == "Deployment shop/web: 1 of 3 pods run: wants 5"
    assert [(one.count, one.name) for one in found.causes] == [(2, "shop/web-1-*")]
    assert found.stopped_at == "placed"
    assert "2 pods, such as shop/web-1-1" in render_workload(found)


def test_both_layers_are_said_if_pods_are_missing_and_others_wait() -> None:
    pods = [pod("web-1-0", "ReplicaSet/web-1", node="", priority=5)]
    sets = replica_set("web-1", 3, 'pods "web-1-" is forbidden: no PriorityClass with name gold was found')
    found = answer("Deployment/web", DEPLOYMENT, sets, pods=pods)
    assert found is not None
    assert found.headline == (
        "Deployment shop/web: 1 of 3 pods exist: PriorityClass gold does not exist; "
        "1 pod does not run: wants 5"
    )
    assert found.stopped_at == "created"


def test_a_rollout_that_stops_names_the_new_replica_set() -> None:
    pods = [pod(f"web-1-{number}", "ReplicaSet/web-1") for number in range(3)]
    new = replica_set("web-2", 1, 'pods "web-2-" is forbidden: serviceaccount "builder" not found')
    said = headline("Deployment/web", DEPLOYMENT, replica_set("web-1", 3), new, pods=pods)
    assert "ReplicaSet web-2 cannot create 1 pod: serviceaccount builder does not exist" in said


def test_only_a_few_pods_that_look_different_are_explained() -> None:
    count = MOST_EXPLAINED + 3
    pods = [
        pod(f"web-1-{n}", "ReplicaSet/web-1", node="", schedulingGates=[{"name": str(n)}])
        for n in range(count)
    ]
    found = answer("Deployment/web", DEPLOYMENT, replica_set("web-1", count), pods=pods)
    assert found is not None
    assert (found.unexplained, sum(one.count for one in found.causes)) == (3, MOST_EXPLAINED)


WORDS: dict[str, tuple[str, list[Object], str]] = {
    "a deployment whose sets were never made": (
        "Deployment/web",
        [DEPLOYMENT],
        "0 of 3 pods exist: it has no ReplicaSet; its controller has said nothing yet",
    ),
    "a stateful set that waits for its first pod": (
        "StatefulSet/db",
        [
            made(StatefulSet, "db", spec={"replicas": 3}),
            pod("db-0", "StatefulSet/db", node="", priority=7),
        ],
        "StatefulSet shop/db: 0 of 3 pods run: wants 7",
    ),
    "a job that is complete": (
        "Job/report",
        [made(Job, "report", status={"conditions": [{"type": "Complete", "status": "True"}]})],
        "Job shop/report is complete",
    ),
    "a job of Kueue": (
        "Job/report",
        [made(Job, "report", labels={"kueue.x-k8s.io/queue-name": "team"}, spec={"suspend": True})],
        "is suspended until Kueue admits it (queue team)",
    ),
    "a job that may not create its pod": (
        "Job/report",
        [made(Job, "report"), refused("Job/report", f'{FORBIDDEN}RuntimeClass "kata" not found')],
        "0 of 1 pods exist: RuntimeClass kata does not exist",
    ),
    "a job whose pods fail": (
        "Job/report",
        [made(Job, "report"), made(Pod, "report-x", owner="Job/report", status={"phase": "Failed"})],
        "Job shop/report: 0 of 1 pods run: 1 pod failed, the next one is created after a pause",
    ),
    "a job that has failed": (
        "Job/report",
        [
            made(
                Job,
                "report",
                status={"conditions": [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}]},
            )
        ],
        "Job shop/report has failed: DeadlineExceeded",
    ),
    "a cron job before its first time": (
        "CronJob/report",
        [made(CronJob, "report", spec={"schedule": "0 4 * * *"})],
        "has not come to its first time yet (0 4 * * *)",
    ),
    "a cron job with the pod of its job": (
        "CronJob/report",
        [
            made(CronJob, "report", status={"lastScheduleTime": "2026-11-19T04:00:00Z"}),
            made(Job, "report-1", owner="CronJob/report"),
            pod("report-1-x", "Job/report-1", node="", priority=9),
        ],
        "CronJob shop/report: 0 of 1 pods run: wants 9",
    ),
    "a daemon set that tolerates none of its nodes": (
        "DaemonSet/agent",
        [
            made(DaemonSet, "agent"),
            made(Node, "n0", spec={"taints": [{"key": "gpu", "effect": "NoSchedule"}]}),
        ],
        "tolerates none of the 1 node that it selects: taint gpu:NoSchedule",
    ),
}


@pytest.mark.parametrize("case", WORDS, ids=str)
def test_the_headline_has_the_layer_that_does_not_go_on(case: str) -> None:
    target, objects, words = WORDS[case]
    pods = [one for one in objects if isinstance(one, Pod)]
    assert words in headline(target, *objects, pods=pods)


def test_a_workload_that_a_dump_lacks_is_known_by_its_pods() -> None:
    labels = {"pod-template-hash": "5d4f"}
    known = made(Pod, "web-5d4f-0", owner="ReplicaSet/web-5d4f", labels=labels, status={"phase": "Running"})
    found = answer("Deployment/web", pods=[known])
    assert found is not None
    assert (found.wanted, found.created) == (None, 1)
    assert found.incomplete == ("the dump has no deployments", "the dump has no replicasets")
    assert answer("Deployment/other", pods=[known]) is None


def refusal(message: str, *objects: Object, missing: int = 1) -> Any:
    return asyncio.run(refusal_of(message, "shop", missing, DumpReads(objects)))


EXCEEDED = (
    f"{FORBIDDEN}exceeded quota: team, requested: requests.cpu=500m, used: requests.cpu=2, "
    "limited: requests.cpu=2"
)


def quota(name: str, hard: str, used: str, **spec: Any) -> Any:
    return made(
        ResourceQuota,
        name,
        spec={"hard": {"requests.cpu": hard}, **spec},
        status={"used": {"requests.cpu": used}},
    )


def test_a_quota_is_told_with_the_figures_of_today() -> None:
    found = refusal(EXCEEDED, quota("team", "3", "2800m"), missing=3)
    assert found.text == "quota team: requests.cpu: used 2800m of 3, a pod needs 500m"
    [change] = found.changes
    assert change.text == "raise quota team: requests.cpu 4300m (now 3)"
    assert '{"spec":{"hard":{"requests.cpu":"4300m"}}}' in change.command


def test_a_quota_that_has_room_again_needs_no_change() -> None:
    found = refusal(EXCEEDED, quota("team", "9", "2"))
    assert "there is room now" in found.text
    assert not found.changes


def test_every_quota_that_is_too_small_is_raised() -> None:
    others = quota("all", "2", "2"), quota("best", "1", "1", scopes=["BestEffort"])
    [change] = refusal(EXCEEDED, quota("team", "2", "2"), *others).changes
    assert (
        change.text == "raise quota team: requests.cpu 2500m (now 2) and raise quota all: requests.cpu "
        "2500m (now 2)"
    )
    assert "quota/best" not in change.command


REFUSALS = {
    "a claim": (
        'create Claim data-db-1 for Pod db-1 in StatefulSet db failed error: persistentvolumeclaims "d" is '
        "forbidden: exceeded quota: q, requested: persistentvolumeclaims=1, used: persistentvolumeclaims=1, "
        "limited: persistentvolumeclaims=1",
        "a claim needs 1",
        "raise quota q",
    ),
    "a maximum": (
        f"{FORBIDDEN}maximum cpu usage per Container is 2, but limit is 4",
        "maximum cpu usage per Container is 2, but limit is 4",
        "limit cpu to 2 per container, or raise the maximum of LimitRange bounds",
    ),
    "an event that stands for many": (
        f"(combined from similar events): {FORBIDDEN}minimum memory usage per Container is 256Mi, but "
        "request is 64Mi",
        "minimum memory usage per Container is 256Mi, but request is 64Mi",
        "request at least 256Mi memory per container",
    ),
    "a quota that wants requests": (
        f"{FORBIDDEN}failed quota: team: must specify requests.memory for: main",
        "quota team: must specify requests.memory for: main",
        "request memory in the template",
    ),
    "a class with a typo": (
        f"{FORBIDDEN}no PriorityClass with name gold was found",
        "PriorityClass gold does not exist",
        "name PriorityClass golden in the template",
    ),
    "a webhook": (
        'Error creating: admission webhook "policy.example.com" denied the request: no latest',
        'admission webhook "policy.example.com" denied the request: no latest',
        "policy.example.com",
    ),
    "a webhook that is silent": (
        'Error creating: Internal error occurred: failed calling webhook "a.b.c": timeout',
        "failed calling webhook",
        "a.b.c",
    ),
    "pod security": (
        f'{FORBIDDEN}violates PodSecurity "restricted:latest": privileged',
        "violates PodSecurity",
        "PodSecurity restricted",
    ),
    "a validating policy": (
        f"{FORBIDDEN}ValidatingAdmissionPolicy 'images' with binding 'images-prod' denied request: no latest",
        "ValidatingAdmissionPolicy 'images' with binding 'images-prod' denied request: no latest",
        "a template that ValidatingAdmissionPolicy images admits, or change its binding images-prod",
    ),
    "a policy without params": (
        f"{FORBIDDEN}ValidatingAdmissionPolicy 'limits' with binding 'limits' denied request: failed to "
        "configure binding: no params found for policy binding with `Deny` parameterNotFoundAction",
        "no params found",
        "create the params that binding limits of ValidatingAdmissionPolicy limits names",
    ),
    "a policy that cannot be evaluated": (
        "Error creating: policy 'sidecar' with binding 'sidecar' denied request: expression 'object.nope' "
        "resulted in error: no such key: nope",
        "no such key: nope",
        "repair MutatingAdmissionPolicy sidecar: it cannot be evaluated for these pods",
    ),
    "something new": (f"{FORBIDDEN}too blue", "too blue", ""),
}


@pytest.mark.parametrize("case", REFUSALS, ids=str)
def test_a_refusal_is_told_in_its_own_words_with_what_helps(case: str) -> None:
    message, text, remedy = REFUSALS[case]
    bounds = made(LimitRange, "bounds", spec={"limits": [{"type": "Container", "max": {"cpu": "2"}}]})
    found = refusal(message, bounds, made(PriorityClass, "golden"))
    assert text in found.text
    assert "is forbidden" not in found.text
    assert "combined" not in found.text
    assert remedy in found.remedy


@pytest.mark.parametrize(
    ("name", "existing", "expected"),
    [
        ("infra", ["gpu", "infer", "general"], "infer"),
        ("genral", ["general", "gpu"], "general"),
        ("Gold", ["gold"], "gold"),
        ("gold", ["golden"], "golden"),
        ("train", ["train-gpu"], "train-gpu"),
        ("volcano", ["default-scheduler"], ""),
    ],
)
def test_the_closest_name_is_the_one_that_was_probably_meant(
    name: str, existing: list[str], expected: str
) -> None:
    assert closest(name, existing) == expected
