"""Realistic objects: nodes and pods as an API server lists them in a running cluster.

They are as long as in real clusters: nodes with images, pods with an owner, a token volume, tolerations, a
status as kubelets write it, and managed fields.
"""

from typing import Any, Final

from stowplan.api.requests import Json
from stowplan.lab.bench.engine.workloads import HOSTNAME, ZONE, ZONES, node_name

NAMESPACE: Final = "default"
_TIME: Final = "2026-01-01T00:00:00Z"
_REPLICAS: Final = 100
"""Pods of one ReplicaSet."""


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
    """Managed fields, as an API server records them."""
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
