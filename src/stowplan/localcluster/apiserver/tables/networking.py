"""Tables of discovery.k8s.io and networking.k8s.io."""

from collections.abc import Mapping, Sequence
from typing import Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json
from stowplan.localcluster.apiserver.tables.columns import (
    AGE,
    NAME,
    TableColumn,
    field_cell,
    first_of,
    selector_text,
    spec_of,
    status_of,
)


def _addresses(slice_: Json, now: float) -> str:
    return first_of(
        [address for end in slice_.get("endpoints") or () for address in end.get("addresses") or ()]
    )


def _slice_ports(slice_: Json, now: float) -> str:
    ports = slice_.get("ports") or ()
    return first_of([str(port["port"] if "port" in port else port.get("name", "*")) for port in ports])


ENDPOINT_SLICES: Final = (
    NAME,
    TableColumn("AddressType", field_cell("addressType", "")),
    TableColumn("Ports", _slice_ports),
    TableColumn("Endpoints", _addresses),
    AGE,
)


def _hosts(ingress: Json, now: float) -> str:
    """The hosts of the first rules; the rest are counted by their rules, as the real table does."""
    hosts: list[str] = []
    rules = spec_of(ingress).get("rules") or ()
    for number, rule in enumerate(rules):
        if len(hosts) == 3:
            return f"{','.join(hosts)} + {len(rules) - 3} more..." if number < len(rules) else ",".join(hosts)
        if rule.get("host"):
            hosts.append(rule["host"])
    return ",".join(hosts) or "*"


def _load_balancer(ingress: Json, now: float) -> str:
    found = {
        str(entry.get("ip") or entry.get("hostname"))
        for entry in (status_of(ingress).get("loadBalancer") or {}).get("ingress") or ()
        if entry.get("ip") or entry.get("hostname")
    }
    return ",".join(sorted(found))


INGRESSES: Final = (
    NAME,
    TableColumn("Class", lambda obj, now: spec_of(obj).get("ingressClassName", "<none>")),
    TableColumn("Hosts", _hosts),
    TableColumn("Address", _load_balancer),
    TableColumn("Ports", lambda obj, now: "80, 443" if spec_of(obj).get("tls") else "80"),
    AGE,
)
_DEFAULT_CLASS: Final = "ingressclass.kubernetes.io/is-default-class"


def _class_name(obj: Json, now: float) -> str:
    name: str = obj["metadata"]["name"]
    is_default = (obj["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS) == "true"
    return f"{name} (default)" if is_default else name


def _parameters(obj: Json, now: float) -> str:
    given = spec_of(obj).get("parameters")
    if given is None:
        return "<none>"
    group = f".{given['apiGroup']}" if given.get("apiGroup") else ""
    return f"{given.get('kind', '')}{group}/{given.get('name', '')}"


INGRESS_CLASSES: Final = (
    TableColumn("Name", _class_name, format="name"),
    TableColumn("Controller", lambda obj, now: spec_of(obj).get("controller", "")),
    TableColumn("Parameters", _parameters),
    AGE,
)
NETWORK_POLICIES: Final = (
    NAME,
    TableColumn("Pod-Selector", lambda obj, now: selector_text(spec_of(obj).get("podSelector"))),
    AGE,
)


def _parent(address: Json, now: float) -> str:
    parent = spec_of(address).get("parentRef")
    if parent is None:
        return "<none>"
    group = f".{parent['group']}" if parent.get("group") else ""
    parts = [f"{parent.get('resource', '')}{group}".lower(), parent.get("namespace"), parent.get("name")]
    return "/".join(part for part in parts if part)


IP_ADDRESSES: Final = (NAME, TableColumn("ParentRef", _parent))
SERVICE_CIDRS: Final = (
    NAME,
    TableColumn("CIDRs", lambda obj, now: ",".join(spec_of(obj).get("cidrs") or ())),
    AGE,
)

COLUMNS: Final[Mapping[Resource, Sequence[TableColumn]]] = {
    catalogue.ENDPOINT_SLICES: ENDPOINT_SLICES,
    catalogue.INGRESSES: INGRESSES,
    catalogue.INGRESS_CLASSES: INGRESS_CLASSES,
    catalogue.NETWORK_POLICIES: NETWORK_POLICIES,
    catalogue.IP_ADDRESSES: IP_ADDRESSES,
    catalogue.SERVICE_CIDRS: SERVICE_CIDRS,
}
