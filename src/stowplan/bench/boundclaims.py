"""Storage for the workload `csi-limits`: a bound claim for each pod, and nodes that attach only so many."""

from collections.abc import Iterator
from typing import Any

import msgspec

from stowplan.api.decode import decode
from stowplan.api.meta import Object
from stowplan.api.storage import CSINode, PersistentVolume, PersistentVolumeClaim

DRIVER = "disk.csi.example.com"
LIMIT = 39
"""Volumes that a node can have attached."""

_encode = msgspec.json.Encoder().encode


def csi_node(name: str) -> CSINode:
    """What the driver says of a node."""
    driver = {"name": DRIVER, "nodeID": name, "topologyKeys": [], "allocatable": {"count": LIMIT}}
    document = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": name, "uid": f"uid-csi-{name}"},
        "spec": {"drivers": [driver]},
    }
    return decode(_encode(document), CSINode)


def bound_claim(namespace: str, name: str) -> Iterator[Object]:
    """A claim and the volume it is bound to."""
    volume_name = f"pv-{name}"
    common: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem"}
    reference = {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": name, "uid": f"uid-{name}"}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": volume_name, "uid": f"uid-{volume_name}"},
        "spec": {
            **common,
            "capacity": {"storage": "1Gi"},
            "csi": {"driver": DRIVER, "volumeHandle": volume_name},
            "claimRef": reference,
        },
        "status": {"phase": "Bound"},
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "namespace": namespace,
            "name": name,
            "uid": f"uid-{name}",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
        },
        "spec": {
            **common,
            "resources": {"requests": {"storage": "1Gi"}},
            "volumeName": volume_name,
        },
        "status": {"phase": "Bound"},
    }
    yield decode(_encode(volume), PersistentVolume)
    yield decode(_encode(claim), PersistentVolumeClaim)
