"""Pod Security admission: what the labels of a namespace do to pods and workloads in it."""

# ruff: noqa: E501 - a message stands on one line

from typing import Any

import pytest

from localcluster.admission.policies.policy_clusters import PolicyCluster, Result, pod
from stowplan.api import catalogue as c
from stowplan.localcluster.admission.podsecurity import NamespacePolicy, Standard, policy_of

Json = dict[str, Any]
RESTRICTED_CONTAINER: Json = {
    "name": "main",
    "image": "nginx",
    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
}
MEETS: Json = {
    "containers": [RESTRICTED_CONTAINER],
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
}
PRIVILEGED: Json = {
    "containers": [{"name": "main", "image": "nginx", "securityContext": {"privileged": True}}]
}
PLAIN = (
    'PodSecurity "restricted:latest": allowPrivilegeEscalation != false (container "main" must set '
    'securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container "main" must set '
    'securityContext.capabilities.drop=["ALL"]), runAsNonRoot != true (pod or container "main" must set '
    'securityContext.runAsNonRoot=true), seccompProfile (pod or container "main" must set '
    'securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")'
)


@pytest.fixture
def cluster() -> PolicyCluster:
    return PolicyCluster()


def labelled(cluster: PolicyCluster, name: str = "prod", **labels: str) -> Result:
    given = {f"pod-security.kubernetes.io/{mode.replace('_', '-')}": value for mode, value in labels.items()}
    return cluster.patch(c.NAMESPACES, name, {"metadata": {"labels": given}}, "")


def test_a_pod_that_its_namespace_does_not_admit(cluster: PolicyCluster) -> None:
    assert cluster.create(c.PODS, pod(PRIVILEGED, name="before")).error is None
    assert labelled(cluster, enforce="restricted").error is None
    refused = cluster.create(c.PODS, pod())
    assert refused.message == f'pods "web" is forbidden: violates {PLAIN}'
    assert refused.error is not None
    assert (refused.error.code, refused.error.reason) == (403, "Forbidden")
    assert refused.error.details == {"name": "web", "kind": "pods"}
    assert refused.warnings == []
    assert cluster.create(c.PODS, pod(MEETS)).error is None
    assert cluster.create(c.PODS, pod(namespace="test")).error is None
    assert labelled(cluster, enforce="privileged").warnings == []
    assert cluster.create(c.PODS, pod(name="late")).error is None


def test_a_generated_name_is_named_in_the_refusal(cluster: PolicyCluster) -> None:
    labelled(cluster, enforce="baseline")
    made = {"metadata": {"generateName": "web-", "namespace": "prod"}, "spec": PRIVILEGED}
    found = cluster.create(c.PODS, made).message
    assert found.startswith('pods "web-')
    assert 'violates PodSecurity "baseline:latest": privileged (container "main" must not set' in found


def test_warnings_and_audit(cluster: PolicyCluster) -> None:
    labelled(cluster, warn="restricted", audit="baseline")
    found = cluster.create(c.PODS, pod(PRIVILEGED))
    assert found.error is None
    assert len(found.warnings) == 1
    assert found.warnings[0].startswith(
        'would violate PodSecurity "restricted:latest": privileged (container'
    )
    assert found.annotations == {
        "pod-security.kubernetes.io/enforce-policy": "privileged:latest",
        "pod-security.kubernetes.io/audit-violations": 'would violate PodSecurity "baseline:latest": privileged '
        '(container "main" must not set securityContext.privileged=true)',
    }


def test_workloads_are_warned_of_and_not_refused(cluster: PolicyCluster) -> None:
    labelled(cluster, enforce="restricted")
    assert cluster.deploy().warnings == [f"would violate {PLAIN}"]
    template = {"spec": {**PRIVILEGED, "restartPolicy": "Never"}}
    job = {"metadata": {"name": "j", "namespace": "prod"}, "spec": {"template": template}}
    assert len(cluster.create(c.JOBS, job).warnings) == 1
    schedule = {"schedule": "@daily", "jobTemplate": {"spec": {"template": template}}}
    cron = {"metadata": {"name": "c", "namespace": "prod"}, "spec": schedule}
    assert len(cluster.create(c.CRON_JOBS, cron).warnings) == 1
    labelled(cluster, warn="privileged")
    assert cluster.patch(c.DEPLOYMENTS, "web", {"spec": {"replicas": 2}}).warnings == []


def test_a_stricter_level_warns_of_pods_that_are_there(cluster: PolicyCluster) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": True}
    for name in ("b", "a", "c"):
        cluster.create(c.PODS, pod(name=name, ownerReferences=[owner]))
    cluster.create(c.PODS, pod(PRIVILEGED, name="p"))
    cluster.create(c.PODS, pod(MEETS, name="good"))
    assert labelled(cluster, enforce="baseline").warnings == [
        'existing pods in namespace "prod" violate the new PodSecurity enforce level "baseline:latest"',
        "p: privileged",
    ]
    reasons = (
        "allowPrivilegeEscalation != false, unrestricted capabilities, runAsNonRoot != true, seccompProfile"
    )
    assert labelled(cluster, enforce="restricted").warnings == [
        'existing pods in namespace "prod" violate the new PodSecurity enforce level "restricted:latest"',
        f"a (and 2 other pods): {reasons}",
        f"p: privileged, {reasons}",
    ]
    assert labelled(cluster, enforce="baseline").warnings == []
    assert labelled(cluster, warn="restricted").warnings == []


def test_wrong_labels_are_refused_unless_they_are_there_already(cluster: PolicyCluster) -> None:
    refused = labelled(cluster, enforce="strict", warn_version="1.20")
    assert refused.error is not None
    assert refused.error.code == 422
    told = {one["field"]: one["message"] for one in refused.error.details["causes"]}
    assert told == {
        "metadata.labels[pod-security.kubernetes.io/enforce]": 'Invalid value: "strict": must be one of privileged, baseline, restricted',
        "metadata.labels[pod-security.kubernetes.io/warn-version]": 'Invalid value: "1.20": must be "latest" or "v1.x"',
    }
    made = {"metadata": {"name": "new", "labels": {"pod-security.kubernetes.io/audit": "all"}}}
    assert cluster.create(c.NAMESPACES, made).error is not None


def test_updates_of_pods_are_checked_if_they_change_images(cluster: PolicyCluster) -> None:
    cluster.create(c.PODS, pod())
    labelled(cluster, enforce="restricted")
    assert cluster.patch(c.PODS, "web", {"metadata": {"labels": {"a": "b"}}}).error is None
    image = {"spec": {"containers": [{"name": "main", "image": "other"}]}}
    assert "violates PodSecurity" in cluster.patch(c.PODS, "web", image).message
    assert cluster.delete(c.PODS, "web").error is None


LABELS = "pod-security.kubernetes.io/"


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({}, NamespacePolicy()),
        ({"enforce": "baseline"}, NamespacePolicy(Standard("baseline"), warn=Standard("baseline"))),
        (
            {"enforce": "restricted", "enforce-version": "v1.30"},
            NamespacePolicy(Standard("restricted", "v1.30"), warn=Standard("restricted", "v1.30")),
        ),
        (
            {"enforce": "restricted", "warn": "baseline", "warn-version": "v1.20"},
            NamespacePolicy(Standard("restricted"), warn=Standard("baseline", "v1.20")),
        ),
        ({"audit": "restricted"}, NamespacePolicy(audit=Standard("restricted"))),
    ],
)
def test_the_policy_of_labels(labels: Json, expected: NamespacePolicy) -> None:
    assert policy_of({f"{LABELS}{key}": value for key, value in labels.items()}) == expected


def test_a_wrong_level_is_restricted_where_it_is_enforced_only() -> None:
    found = policy_of({f"{LABELS}{mode}": "all" for mode in ("enforce", "audit", "warn")})
    assert (found.enforce.level, found.audit.level, found.warn.level) == (
        "restricted",
        "privileged",
        "privileged",
    )
    assert len(found.errors) == 3
