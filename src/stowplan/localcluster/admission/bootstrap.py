"""Objects that every cluster has from the start."""

import base64
import ipaddress
from typing import Final

import yaml

from stowplan.api.catalogue import (
    CONFIG_MAPS,
    ENDPOINT_SLICES,
    ENDPOINTS,
    NAMESPACES,
    PRIORITY_CLASSES,
    RBAC,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    SERVICE_CIDRS,
    SERVICES,
    Resource,
)
from stowplan.api.requests import Json
from stowplan.localcluster.admission.flowcontrol import create_flow_control
from stowplan.localcluster.auth.policy import create_bootstrap_policy
from stowplan.localcluster.store import Store

SERVICE_RANGE: Final = ipaddress.IPv4Network("10.96.0.0/16")
"""The addresses of services. The first is that of the Service `kubernetes`."""

_KUBERNETES: Final = "kubernetes"
DEFAULT_ACCOUNT: Final = "default"
BOOTSTRAP_NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
SYSTEM_PRIORITIES: Final = {
    "system-cluster-critical": (
        2_000_000_000,
        "For pods the cluster cannot do without, wherever they run.",
    ),
    "system-node-critical": (
        2_000_001_000,
        "For pods a node cannot do without.",
    ),
}


def create_bootstrap_objects(store: Store) -> None:
    """Make the objects that are always there, where they are not yet."""
    for name in BOOTSTRAP_NAMESPACES:
        _ensure(store, NAMESPACES, {"metadata": {"name": name}})
        create_default_account(store, name)
    for name, (value, description) in SYSTEM_PRIORITIES.items():
        _ensure(
            store,
            PRIORITY_CLASSES,
            {"metadata": {"name": name}, "value": value, "description": description},
        )
    _ensure_service_range(store)
    create_bootstrap_policy(store)
    create_flow_control(store)


def _ensure_service_range(store: Store) -> None:
    """The addresses that services are given, as an object that is ready."""
    body: Json = {"metadata": {"name": _KUBERNETES}, "spec": {"cidrs": [str(SERVICE_RANGE)]}}
    made = _ensure(store, SERVICE_CIDRS, body)
    if not (made.get("status") or {}).get("conditions"):
        ready = {
            "type": "Ready",
            "status": "True",
            "lastTransitionTime": made["metadata"]["creationTimestamp"],
            "reason": "",
            "message": "Kubernetes default Service CIDR is ready",
        }
        store.update(SERVICE_CIDRS, {**made, "status": {"conditions": [ready]}}, subresource="status")


def create_default_account(store: Store, namespace: str) -> None:
    """Have a namespace's default account at once, for pods that cannot wait for a controller to make it."""
    _ensure(store, SERVICE_ACCOUNTS, {"metadata": {"name": DEFAULT_ACCOUNT, "namespace": namespace}})


KUBERNETES_IP: Final = str(SERVICE_RANGE[1])
_PORT_NAME: Final = "https"


def publish_server(store: Store, address: str, port: int) -> None:
    """Make the Service `kubernetes`, by which pods find the API server, with its endpoints.

    A server that is started again on other data may have moved: then it says where to.
    """
    labels = {"component": "apiserver", "provider": "kubernetes"}
    ports = [{"name": _PORT_NAME, "port": 443, "protocol": "TCP", "targetPort": port}]
    service: Json = {
        "metadata": {"name": _KUBERNETES, "namespace": "default", "labels": labels},
        "spec": {"clusterIP": KUBERNETES_IP, "ipFamilyPolicy": "SingleStack", "ports": ports},
    }
    _publish(store, SERVICES, service, "spec")
    serving = [{"name": _PORT_NAME, "port": port, "protocol": "TCP"}]
    skipped = {"endpointslice.kubernetes.io/skip-mirror": "true"}
    endpoints: Json = {
        "metadata": {"name": _KUBERNETES, "namespace": "default", "labels": skipped},
        "subsets": [{"addresses": [{"ip": address}], "ports": serving}],
    }
    _publish(store, ENDPOINTS, endpoints, "subsets")
    slice_: Json = {
        "metadata": {
            "name": _KUBERNETES,
            "namespace": "default",
            "labels": {"kubernetes.io/service-name": _KUBERNETES},
        },
        "addressType": "IPv6" if ":" in address else "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": serving,
    }
    _publish(store, ENDPOINT_SLICES, slice_, "ports")


_CLUSTER_INFO: Final = "cluster-info"
_INFO_ROLE: Final = "kubeadm:bootstrap-signer-clusterinfo"


def publish_authority(store: Store, url: str, authority: bytes | None) -> None:
    """Make the ConfigMaps by which others find the server and the CA of its clients.

    `cluster-info` can be read by everybody, as in clusters of kubeadm. `extension-apiserver-authentication`
    tells extension API servers how to know that a request comes from this server. Nothing without TLS.
    """
    if authority is None:
        return
    certificate = authority.decode()
    cluster = {"server": url, "certificate-authority-data": base64.b64encode(authority).decode()}
    config = {
        "apiVersion": "v1",
        "clusters": [{"cluster": cluster, "name": ""}],
        "contexts": None,
        "current-context": "",
        "kind": "Config",
        "users": None,
    }
    _publish_map(store, "kube-public", _CLUSTER_INFO, {"kubeconfig": yaml.safe_dump(config)})
    rules = [
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [_CLUSTER_INFO], "verbs": ["get"]}
    ]
    where = {"name": _INFO_ROLE, "namespace": "kube-public"}
    _ensure(store, ROLES, {"metadata": where, "rules": rules})
    reference = {"apiGroup": RBAC, "kind": "Role", "name": _INFO_ROLE}
    anybody = [{"apiGroup": RBAC, "kind": "User", "name": "system:anonymous"}]
    _ensure(store, ROLE_BINDINGS, {"metadata": where, "roleRef": reference, "subjects": anybody})
    known = {
        "client-ca-file": certificate,
        "requestheader-allowed-names": '["front-proxy-client"]',
        "requestheader-client-ca-file": certificate,
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
        "requestheader-group-headers": '["X-Remote-Group"]',
        "requestheader-uid-headers": '["X-Remote-Uid"]',
        "requestheader-username-headers": '["X-Remote-User"]',
    }
    _publish_map(store, "kube-system", "extension-apiserver-authentication", known)


def _publish_map(store: Store, namespace: str, name: str, data: dict[str, str]) -> None:
    _publish(store, CONFIG_MAPS, {"metadata": {"name": name, "namespace": namespace}, "data": data}, "data")


def _ensure(store: Store, resource: Resource, body: Json) -> Json:
    metadata = body["metadata"]
    found = store.find(resource, metadata.get("namespace", ""), metadata["name"])
    return store.create(resource, body) if found is None else found


def _publish(store: Store, resource: Resource, body: Json, section: str) -> None:
    found = _ensure(store, resource, body)
    written, wanted = found.get(section), body[section]
    if isinstance(wanted, dict):
        wanted = {**(written or {}), **wanted}
    if written != wanted:
        store.update(resource, {**found, section: wanted})
