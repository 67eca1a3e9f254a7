"""The topmost controller of a pod: what a lasting change has to be made to."""

import asyncio

import pytest

from stowplan.api.catalogue import REPLICA_SETS
from stowplan.api.meta import Object, ObjectMeta, OwnerReference
from stowplan.api.pod import Pod
from stowplan.api.workloads import Deployment, Job, ReplicaSet, StatefulSet
from stowplan.explain.commands import Owner
from stowplan.explain.document.pod import PodDocument
from stowplan.explain.layers.owners import owner_of, owners_of, with_owners
from stowplan.explain.layers.reads import DumpReads


def of(version: str, kind: str, name: str, *, controller: bool = True) -> tuple[OwnerReference, ...]:
    return (OwnerReference(api_version=version, kind=kind, name=name, controller=controller or None),)


def pod_of(owners: tuple[OwnerReference, ...], **labels: str) -> Pod:
    names = {label.replace("_", "-"): value for label, value in labels.items()}
    return Pod(metadata=ObjectMeta(name="one", namespace="shop", labels=names, owner_references=owners))


def owned(cls: type[Object], name: str, *owners: OwnerReference) -> Object:
    return cls(metadata=ObjectMeta(name=name, namespace="shop", owner_references=owners))


RS = of("apps/v1", "ReplicaSet", "web-5d4f")
ABOVE = {
    "a pod without owner": ((), [], None, ""),
    "a deployment above its replica set": (
        RS,
        [owned(ReplicaSet, "web-5d4f", *of("apps/v1", "Deployment", "web")), owned(Deployment, "web")],
        ("apps/v1", "Deployment", "web"),
        "deployment/web",
    ),
    "a replica set alone": (
        RS,
        [owned(ReplicaSet, "web-5d4f")],
        ("apps/v1", "ReplicaSet", "web-5d4f"),
        "replicaset/web-5d4f",
    ),
    "a cron job above its job": (
        of("batch/v1", "Job", "report-1"),
        [owned(Job, "report-1", *of("batch/v1", "CronJob", "report"))],
        ("batch/v1", "CronJob", "report"),
        "cronjob/report",
    ),
    "a kind of others": (
        of("argoproj.io/v1alpha1", "Workflow", "etl"),
        [],
        ("argoproj.io/v1alpha1", "Workflow", "etl"),
        "workflow.argoproj.io/etl",
    ),
    "a kind of others above a deployment": (
        RS,
        [
            owned(ReplicaSet, "web-5d4f", *of("apps/v1", "Deployment", "web")),
            owned(Deployment, "web", *of("example.com/v1", "Shop", "all")),
        ],
        ("example.com/v1", "Shop", "all"),
        "shop.example.com/all",
    ),
    "an owner that is no controller": (of("v1", "ConfigMap", "settings", controller=False), [], None, ""),
}


@pytest.mark.parametrize("case", ABOVE, ids=str)
def test_the_topmost_controller_of_a_pod(case: str) -> None:
    references, objects, expected, argument = ABOVE[case]
    found = asyncio.run(owner_of(pod_of(references), DumpReads(objects)))
    if expected is None:
        assert found is None
        return
    version, kind, name = expected
    assert found == Owner(version, kind, "shop", name)
    assert found.argument == argument


def test_a_replica_set_that_cannot_be_read_is_known_to_be_a_deployments_by_its_hash() -> None:
    reads = DumpReads([])
    found = asyncio.run(owners_of(pod_of(RS, pod_template_hash="5d4f"), reads))
    assert [one.argument for one in found] == ["replicaset/web-5d4f", "deployment/web"]
    assert REPLICA_SETS.plural in reads.unread
    assert [one.kind for one in asyncio.run(owners_of(pod_of(RS, app="5d4f"), reads))] == ["ReplicaSet"]


def test_owners_in_a_circle_end() -> None:
    circle = owned(Job, "a", *of("batch/v1", "Job", "b")), owned(Job, "b", *of("batch/v1", "Job", "a"))
    found = asyncio.run(owners_of(pod_of(of("batch/v1", "Job", "a")), DumpReads(circle)))
    assert len(found) <= 6


SETS = {
    "a job set above its job": (
        of("batch/v1", "Job", "train-w-0"),
        [owned(Job, "train-w-0", *of("jobset.x-k8s.io/v1alpha2", "JobSet", "train"))],
        ("Job train-w-0", "JobSet train"),
    ),
    "a leader above its workers": (
        of("apps/v1", "StatefulSet", "s-0"),
        [
            owned(StatefulSet, "s-0", *of("v1", "Pod", "s-0")),
            owned(Pod, "s-0", *of("apps/v1", "StatefulSet", "s")),
            owned(StatefulSet, "s", *of("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "s")),
        ],
        ("StatefulSet s-0", "Pod s-0", "StatefulSet s", "LeaderWorkerSet s"),
    ),
    "only workloads of Kubernetes": (
        of("batch/v1", "Job", "report-1"),
        [owned(Job, "report-1", *of("batch/v1", "CronJob", "report"))],
        (),
    ),
}


@pytest.mark.parametrize("case", SETS)
def test_a_custom_resource_above_a_pod_is_named(case: str) -> None:
    references, objects, expected = SETS[case]
    pod = pod_of(references)
    found = PodDocument(pod="shop/one", state="placed", source="")
    assert asyncio.run(with_owners(found, pod, DumpReads(objects))).owners == expected
