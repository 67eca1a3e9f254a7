"""Validation of objects and their changes: fields and messages as from kube-apiserver."""

# ruff: noqa: E501 - messages stand on one line each, as they are searched for

import random
from typing import Any

import pytest

from localcluster.store.stores import HandClock
from stowplan.api import catalogue as c
from stowplan.api.requests import Json, PatchType
from stowplan.api.status import ApiError
from stowplan.localcluster.admission import ClusterAdmission, create_bootstrap_objects
from stowplan.localcluster.store import Store

CONTAINER: Json = {"name": "c", "image": "i"}
LABELS = {"app": "a"}


@pytest.fixture(scope="module")
def store() -> Store:
    made = Store(HandClock(), random.Random(1), admission=ClusterAdmission())
    create_bootstrap_objects(made)
    return made


def pod(**spec: Any) -> Json:
    return {"metadata": {"name": "x"}, "spec": {"containers": [CONTAINER], **spec}}


def container(**more: Any) -> Json:
    return pod(containers=[{**CONTAINER, **more}])


def volume(**source: Any) -> Json:
    return pod(volumes=[{"name": "v", **source}])


def workload(**spec: Any) -> Json:
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [CONTAINER]}}
    return {
        "metadata": {"name": "x"},
        "spec": {"selector": {"matchLabels": LABELS}, "template": template, **spec},
    }


def job(**spec: Any) -> Json:
    template = {"spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}
    return {"metadata": {"name": "x"}, "spec": {"template": template, **spec}}


def cron_job(**spec: Any) -> Json:
    return {
        "metadata": {"name": "x"},
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": job()["spec"]}, **spec},
    }


def service(**spec: Any) -> Json:
    return {"metadata": {"name": "x"}, "spec": {"ports": [{"port": 1}], **spec}}


def claim(**spec: Any) -> Json:
    resources = {"requests": {"storage": "1Gi"}}
    return {
        "metadata": {"name": "x"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": resources, **spec},
    }


def persistent(**spec: Any) -> Json:
    whole = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/x"},
        **spec,
    }
    return {"metadata": {"name": "x"}, "spec": whole}


def quota(hard: Json, **spec: Any) -> Json:
    return {"metadata": {"name": "x"}, "spec": {"hard": hard, **spec}}


def limit(**item: Any) -> Json:
    return {"metadata": {"name": "x"}, "spec": {"limits": [{"type": "Container", **item}]}}


def secret(kind: str, **data: str) -> Json:
    return {"metadata": {"name": "x"}, "type": kind, "data": data}


NOT_NEGATIVE = "must be greater than or equal to 0"
INVALID: list[tuple[c.Resource, Json, list[str]]] = [
    (c.PODS, pod(containers=[]), ["spec.containers: Required value"]),
    (c.PODS, container(livenessProbe={}), ["spec.containers[0].livenessProbe: Required value: must specify a handler type"]),
    (
        c.PODS,
        container(livenessProbe={"exec": {}, "tcpSocket": {"port": 0}, "successThreshold": 2}),
        [
            "spec.containers[0].livenessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type",
            "spec.containers[0].livenessProbe.exec.command: Required value",
            "spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1",
        ],
    ),
    (
        c.PODS,
        container(ports=[{"name": "UP", "containerPort": 70000}]),
        [
            'spec.containers[0].ports[0].name: Invalid value: "UP": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)',
            'spec.containers[0].ports[0].name: Invalid value: "UP": must contain at least one letter (a-z)',
            "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
        ],
    ),
    (
        c.PODS,
        container(env=[{"name": "A", "value": "v", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]),
        ['spec.containers[0].env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty'],
    ),
    (
        c.PODS,
        container(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.tolerations"}}}]),
        ['spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid value: "spec.tolerations": error converting fieldPath: field label not supported: spec.tolerations'],
    ),
    (
        c.PODS,
        container(volumeMounts=[{"name": "gone", "mountPath": "/a"}]),
        ['spec.containers[0].volumeMounts[0].name: Not found: "gone"'],
    ),
    (
        c.PODS,
        container(resources={"requests": {"cpu": "2", "gpus": "1"}, "limits": {"cpu": "1"}}),
        [
            'spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
            'spec.containers[0].resources.requests[gpus]: Invalid value: "gpus": must be a standard resource type or fully qualified',
            'spec.containers[0].resources.requests[gpus]: Invalid value: "gpus": must be a standard resource for containers',
        ],
    ),
    (
        c.PODS,
        container(resources={"requests": {"example.com/gpu": "1"}}),
        ["spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources"],
    ),
    (c.PODS, container(securityContext={"runAsUser": -1}), ["spec.containers[0].securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive"]),
    (c.PODS, pod(initContainers=[{**CONTAINER, "name": "i", "readinessProbe": {"exec": {"command": ["x"]}}}]), ["spec.initContainers[0].readinessProbe: Forbidden: may not be set for init containers without restartPolicy=Always"]),
    (c.PODS, pod(initContainers=[CONTAINER]), ['spec.initContainers[0].name: Duplicate value: "c"']),
    (c.PODS, volume(hostPath={"path": "/a/../b"}), ["spec.volumes[0].hostPath.path: Invalid value: \"/a/../b\": must not contain '..'"]),
    (c.PODS, volume(emptyDir={}, secret={"secretName": "s"}), ["spec.volumes[0].secret: Forbidden: may not specify more than 1 volume type"]),
    (c.PODS, volume(configMap={"items": [{"key": "k", "path": "/abs"}]}), ["spec.volumes[0].configMap.name: Required value", 'spec.volumes[0].configMap.items[0].path: Invalid value: "/abs": must be a relative path']),
    (c.PODS, volume(nfs={"server": "s", "path": "rel"}), ['spec.volumes[0].nfs.path: Invalid value: "rel": must be an absolute path']),
    (c.PODS, pod(dnsPolicy="None"), ["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"]),
    (c.PODS, pod(hostAliases=[{"ip": "no"}]), ['spec.hostAliases[0].ip: Invalid value: "no": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)']),
    (c.PODS, pod(restartPolicy="Sometimes"), ['spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"']),
    (c.PODS, pod(schedulingGates=[{"name": "g"}], nodeName="n"), ["spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"]),
    (
        c.PODS,
        pod(topologySpreadConstraints=[{"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 2, "labelSelector": {}}]),
        [
            "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
            "spec.topologySpreadConstraints[0].minDomains: Invalid value: 2: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway",
        ],
    ),
    (c.PODS, pod(tolerations=[{"key": "k", "operator": "Exists", "value": "v"}]), ["spec.tolerations[0].operator: Invalid value: \"v\": value must be empty when `operator` is 'Exists'"]),
    (c.DEPLOYMENTS, workload(selector=None), ["spec.selector: Required value", 'spec.template.metadata.labels: Invalid value: {"app":"a"}: `selector` does not match template `labels`']),
    (c.DEPLOYMENTS, workload(replicas=-1), [f"spec.replicas: Invalid value: -1: {NOT_NEGATIVE}"]),
    (
        c.DEPLOYMENTS,
        workload(strategy={"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 0}}),
        ["spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0"],
    ),
    (c.DEPLOYMENTS, workload(strategy={"type": "Recreate", "rollingUpdate": {}}), ["spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"]),
    (c.DEPLOYMENTS, workload(minReadySeconds=700), ["spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds"]),
    (c.STATEFUL_SETS, workload(podManagementPolicy="Odd"), ["spec.podManagementPolicy: Invalid value: \"Odd\": must be 'OrderedReady' or 'Parallel'"]),
    (c.STATEFUL_SETS, workload(volumeClaimTemplates=[{"metadata": {"name": "d"}, "spec": {}}]), ["spec.volumeClaimTemplates[0].spec.accessModes: Required value: at least 1 access mode is required", "spec.volumeClaimTemplates[0].spec.resources[storage]: Required value"]),
    (
        c.DAEMON_SETS,
        workload(updateStrategy={"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}}),
        ["spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero"],
    ),
    (c.JOBS, job(completionMode="Indexed", completions=None, parallelism=1), ["spec.completions: Required value: when completion mode is Indexed"]),
    (c.JOBS, job(backoffLimitPerIndex=1), ["spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode"]),
    (c.JOBS, job(template={"spec": {"containers": [CONTAINER]}}), ['spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"']),
    (
        c.JOBS,
        job(podFailurePolicy={"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [2, 0]}}]}),
        [
            "spec.podFailurePolicy.rules[0].onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In operator",
            "spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: [2,0]: must be ordered",
        ],
    ),
    (c.CRON_JOBS, cron_job(schedule="bad"), ['spec.schedule: Invalid value: "bad": expected exactly 5 fields, found 1: [bad]']),
    (c.CRON_JOBS, cron_job(timeZone="Mars/Olympus"), ['spec.timeZone: Invalid value: "Mars/Olympus": unknown time zone Mars/Olympus']),
    (c.CRON_JOBS, cron_job(concurrencyPolicy="Odd"), ['spec.concurrencyPolicy: Unsupported value: "Odd": supported values: "Allow", "Forbid", "Replace"']),
    (c.SERVICES, service(ports=[{"port": 70000}]), [f"spec.ports[0].{field}: Invalid value: 70000: must be between 1 and 65535, inclusive" for field in ("port", "targetPort")]),
    (c.SERVICES, service(ports=[{"port": 1}, {"port": 1}]), ["spec.ports[0].name: Required value", "spec.ports[1].name: Required value", 'spec.ports[1]: Duplicate value: {"Name":"","Protocol":"TCP","AppProtocol":null,"Port":1,"TargetPort":0,"NodePort":0}']),
    (c.SERVICES, service(clusterIP="1.2.3.4"), ['spec.clusterIPs: Invalid value: ["1.2.3.4"]: failed to allocate IP 1.2.3.4: the provided network does not match the current range']),
    (c.SERVICES, service(type="NodePort", ports=[{"port": 1, "nodePort": 80}]), ["spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767"]),
    (c.SERVICES, service(ports=[{"port": 1, "nodePort": 30001}]), ["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"]),
    (c.SERVICES, service(type="ExternalName", ports=None), ["spec.externalName: Required value"]),
    (c.PERSISTENT_VOLUME_CLAIMS, claim(accessModes=["ReadWriteOncePod", "ReadWriteOnce"]), ["spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes"]),
    (c.PERSISTENT_VOLUME_CLAIMS, claim(resources={"requests": {"storage": "0"}}), ['spec.resources[storage]: Invalid value: "0": must be greater than zero']),
    (c.PERSISTENT_VOLUMES, persistent(hostPath=None), ["spec: Required value: must specify a volume type"]),
    (c.PERSISTENT_VOLUMES, persistent(hostPath=None, local={"path": "/d"}), ["spec.nodeAffinity: Required value: Local volume requires node affinity"]),
    (c.PERSISTENT_VOLUMES, persistent(capacity={"cpu": "1"}), ['spec.capacity: Unsupported value: {"cpu":"1"}: supported values: "storage"']),
    (c.RESOURCE_QUOTAS, quota({"pods": "-1"}), [f'spec.hard[pods]: Invalid value: "-1": {NOT_NEGATIVE}']),
    (c.RESOURCE_QUOTAS, quota({"cpu": "1"}, scopes=["BestEffort"]), ['spec.scopes: Invalid value: ["BestEffort"]: unsupported scope applied to resource']),
    (c.RESOURCE_QUOTAS, quota({"pods": "1"}, scopes=["Terminating", "NotTerminating"]), ['spec.scopes: Invalid value: ["Terminating","NotTerminating"]: conflicting scopes']),
    (c.RESOURCE_QUOTAS, quota({"gpus": "1"}), ['spec.hard[gpus]: Invalid value: "gpus": must be a standard resource type or fully qualified', 'spec.hard[gpus]: Invalid value: "gpus": must be a standard resource for quota']),
    (c.LIMIT_RANGES, limit(type="Pod", default={"cpu": "1"}), ["spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'"]),
    (c.LIMIT_RANGES, limit(type="PersistentVolumeClaim"), ["spec.limits[0].limits: Required value: either minimum or maximum storage value is required, but neither was provided"]),
    (c.LIMIT_RANGES, limit(maxLimitRequestRatio={"cpu": "500m"}), ['spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "500m": ratio 500m is less than 1']),
    (c.SECRETS, secret("kubernetes.io/tls"), ["data[tls.crt]: Required value", "data[tls.key]: Required value"]),
    (c.SECRETS, secret("kubernetes.io/basic-auth"), ["data[username]: Required value", "data[password]: Required value"]),
    (c.SECRETS, secret("kubernetes.io/service-account-token"), ["metadata.annotations[kubernetes.io/service-account.name]: Required value"]),
    (c.CONFIG_MAPS, {"metadata": {"name": "x"}, "data": {"a": "1", "..": "2"}, "binaryData": {"a": "AA=="}}, ['data[a]: Invalid value: "a": duplicate of key present in binaryData', "data[..]: Invalid value: \"..\": must not be '..'"]),
    (c.NODES, {"metadata": {"name": "x"}, "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}] * 2}}, ['metadata.taints[1]: Duplicate value: {"Key":"k","Value":"","Effect":"NoSchedule","TimeAdded":null}: taints must be unique by key and effect pair']),
    (c.POD_DISRUPTION_BUDGETS, {"metadata": {"name": "x"}, "spec": {"minAvailable": 1, "maxUnavailable": 1}}, ['spec: Invalid value: {"MinAvailable":1,"Selector":null,"MaxUnavailable":1,"UnhealthyPodEvictionPolicy":null}: minAvailable and maxUnavailable cannot be both set']),
]  # fmt: skip


@pytest.mark.parametrize(("resource", "body", "causes"), INVALID)
def test_an_invalid_object_is_refused_for_all_that_is_wrong_with_it(
    store: Store, resource: c.Resource, body: Json, causes: list[str]
) -> None:
    with pytest.raises(ApiError) as caught:
        store.create(resource, body, "default" if resource.namespaced else "")
    assert caught.value.code == 422
    found = caught.value.details["causes"]
    assert [f"{cause['field']}: {cause['message']}" for cause in found] == causes


IMMUTABLE = "field is immutable"
CHANGES: list[tuple[c.Resource, Json, Json, list[str]]] = [
    (c.PODS, pod(), {"spec": {"containers": [CONTAINER, {**CONTAINER, "name": "d"}]}}, ["spec.containers: Forbidden: pod updates may not add or remove containers"]),
    (c.PODS, pod(activeDeadlineSeconds=5), {"spec": {"activeDeadlineSeconds": 9}}, ["spec.activeDeadlineSeconds: Invalid value: 9: must be less than or equal to previous value"]),
    (c.PODS, pod(schedulingGates=[{"name": "g"}], nodeSelector={"a": "b"}), {"spec": {"nodeSelector": {"a": "c"}}}, ['spec.nodeSelector: Invalid value: {"a":"c"}: only additions are allowed (no mutations or deletions)']),
    (c.DEPLOYMENTS, workload(), {"spec": {"selector": {"matchLabels": {"app": "b"}}, "template": {"metadata": {"labels": {"app": "b"}}}}}, [f'spec.selector: Invalid value: {{"matchLabels":{{"app":"b"}}}}: {IMMUTABLE}']),
    (c.STATEFUL_SETS, workload(serviceName="s"), {"spec": {"serviceName": "t"}}, ["spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"]),
    (c.JOBS, job(), {"spec": {"completions": 3}}, [f"spec.completions: Invalid value: 3: {IMMUTABLE}"]),
    (c.JOBS, job(), {"spec": {"completionMode": "Indexed"}}, [f'spec.completionMode: Invalid value: "Indexed": {IMMUTABLE}']),
    (c.SECRETS, secret("Opaque"), {"type": "other"}, [f'type: Invalid value: "other": {IMMUTABLE}']),
    (c.CONFIG_MAPS, {"metadata": {"name": "x"}, "immutable": True}, {"data": {"a": "b"}}, ["data: Forbidden: field is immutable when `immutable` is set"]),
    (c.RESOURCE_QUOTAS, quota({"pods": "1"}), {"spec": {"scopes": ["BestEffort"]}}, [f'spec.scopes: Invalid value: ["BestEffort"]: {IMMUTABLE}']),
    (c.PERSISTENT_VOLUMES, persistent(), {"spec": {"volumeMode": "Block"}}, [f'volumeMode: Invalid value: "Block": {IMMUTABLE}']),
    (c.NODES, {"metadata": {"name": "x"}, "spec": {"providerID": "p"}}, {"spec": {"providerID": "q"}}, ["spec.providerID: Invalid value: null: field cannot be modified once set"]),
    (
        c.PERSISTENT_VOLUME_CLAIMS,
        claim(),
        {"spec": {"resources": {"requests": {"storage": "2Gi"}}}},
        [
            "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n"
            '@@ -6,7 +6,7 @@\n  "Resources": {\n   "Limits": null,\n   "Requests": {\n-   "storage": "1Gi"\n+   "storage": "2Gi"\n   }\n  },\n  "VolumeName": "",\n'
        ],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("resource", "body", "change", "causes"), CHANGES)
def test_what_must_not_change_stays(
    resource: c.Resource, body: Json, change: Json, causes: list[str]
) -> None:
    store = Store(HandClock(), random.Random(1), admission=ClusterAdmission())
    create_bootstrap_objects(store)
    namespace = "default" if resource.namespaced else ""
    before = store.create(resource, body, namespace)
    with pytest.raises(ApiError) as caught:
        store.patch(resource, namespace, "x", change, PatchType.MERGE)
    found = caught.value.details["causes"]
    assert [f"{cause['field']}: {cause['message']}" for cause in found] == causes
    assert store.get(resource, namespace, "x") is before


@pytest.mark.parametrize(
    ("resource", "body", "status", "cause"),
    [
        (c.DEPLOYMENTS, workload(), {"replicas": 1, "readyReplicas": 2}, "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas"),
        (c.STATEFUL_SETS, workload(), {"replicas": -1}, f"status.replicas: Invalid value: -1: {NOT_NEGATIVE}"),
        (c.JOBS, job(), {"failed": -1}, f"status.failed: Invalid value: -1: {NOT_NEGATIVE}"),
        (c.PODS, pod(), {"qosClass": "Guaranteed"}, 'status.qosClass: Invalid value: "Guaranteed": field is immutable'),
        (c.RESOURCE_QUOTAS, quota({"pods": "1"}), {"used": {"pods": "1.5"}}, 'status.used[pods]: Invalid value: "1500m": must be an integer'),
    ],
)  # fmt: skip
def test_a_status_that_cannot_be_is_refused(
    resource: c.Resource, body: Json, status: Json, cause: str
) -> None:
    store = Store(HandClock(), random.Random(1), admission=ClusterAdmission())
    create_bootstrap_objects(store)
    store.create(resource, body, "default")
    with pytest.raises(ApiError) as caught:
        store.patch(resource, "default", "x", {"status": status}, subresource="status")
    first = caught.value.details["causes"][0]
    assert f"{first['field']}: {first['message']}" == cause
