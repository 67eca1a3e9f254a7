"""APIServices: one for each served group and version, and the availability of those of extension servers.

Those of the server's own groups are made at the start, those of custom resources with their definitions, and
both are made again when they are deleted. They are available from their creation on (see the store).
"""

from collections.abc import Callable, Iterator
from typing import Final

from stowplan.api.catalogue import (
    API_SERVICES,
    CUSTOM_RESOURCE_DEFINITIONS,
    ENDPOINT_SLICES,
    SERVICES,
)
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.gocompat.quoting import quote
from stowplan.localcluster.apiserver.discovery import REVIEWS, ServedKinds
from stowplan.localcluster.store import Store, StoreChange
from stowplan.localcluster.store.objects import find_condition, labels_of, with_condition

Reachable = Callable[[str, str, int], bool]
"""True if a port of a service (namespace, name, port) leads to a server outside of this process."""

AUTO_MANAGED: Final = "kube-aggregator.kubernetes.io/automanaged"
_AT_START: Final = "onstart"
_DEFINED: Final = "true"
_DELETED: Final = "DELETED"
_SERVICE_NAME: Final = "kubernetes.io/service-name"
_OF_DEFINITIONS: Final = (1000, 100)
"""Priorities of custom resources: of the group, and of the version."""

_PRIORITIES: Final = {
    "": 18000,
    "apiregistration.k8s.io": 18000,
    "apps": 17800,
    "events.k8s.io": 17750,
    "authentication.k8s.io": 17700,
    "authorization.k8s.io": 17600,
    "autoscaling": 17500,
    "batch": 17400,
    "certificates.k8s.io": 17300,
    "networking.k8s.io": 17200,
    "policy": 17100,
    "rbac.authorization.k8s.io": 17000,
    "storage.k8s.io": 16800,
    "apiextensions.k8s.io": 16700,
    "admissionregistration.k8s.io": 16700,
    "scheduling.k8s.io": 16600,
    "coordination.k8s.io": 16500,
    "node.k8s.io": 16300,
    "discovery.k8s.io": 16200,
    "resource.k8s.io": 16200,
    "flowcontrol.apiserver.k8s.io": 16100,
    "storagemigration.k8s.io": 15800,
}
_VERSION_PRIORITIES: Final = {
    ("", "v1"): 1,
    ("autoscaling", "v2"): 30,
    ("coordination.k8s.io", "v1beta1"): 13,
    ("flowcontrol.apiserver.k8s.io", "v1"): 21,
    ("resource.k8s.io", "v1"): 21,
    ("resource.k8s.io", "v1beta2"): 15,
    ("resource.k8s.io", "v1alpha3"): 1,
    ("scheduling.k8s.io", "v1alpha3"): 3,
}
_STABLE: Final = 15
_UNSTABLE: Final = 9


class ApiServices:
    """Keeps the APIServices of one server."""

    def __init__(
        self, store: Store, served: ServedKinds, reachable: Reachable = lambda namespace, name, port: False
    ) -> None:
        self._store = store
        self._served = served
        self._reachable = reachable
        self._follows_services = False

    def start(self) -> None:
        """Make the objects that are missing, remove those of kinds that are gone, and follow changes."""
        wanted = dict(self._wanted())
        for found in self._store.all(API_SERVICES):
            if AUTO_MANAGED in labels_of(found) and found["metadata"]["name"] not in wanted:
                self._store.delete(API_SERVICES, "", found["metadata"]["name"])
        for name, body in wanted.items():
            if self._store.find(API_SERVICES, "", name) is None:
                self._store.create(API_SERVICES, body)
        for found in self._store.all(API_SERVICES):
            self._check(found)
        self._store.watch(API_SERVICES, self._changed)
        self._store.watch(CUSTOM_RESOURCE_DEFINITIONS, self._definition_changed)

    def _wanted(self) -> Iterator[tuple[str, Json]]:
        """The APIServices of everything that is served, by name."""
        for resource in (*self._served, *REVIEWS):
            group, version = resource.group, resource.version
            name = f"{version}.{group}"
            of_group, of_version = _OF_DEFINITIONS if resource.defined else _priorities(group, version)
            managed = _DEFINED if resource.defined else _AT_START
            spec: Json = {
                "version": version,
                "groupPriorityMinimum": of_group,
                "versionPriority": of_version,
            }
            if group:
                spec["group"] = group
            yield name, {"metadata": {"name": name, "labels": {AUTO_MANAGED: managed}}, "spec": spec}

    def _definition_changed(self, change: StoreChange) -> None:
        """A definition serves other versions now, or is gone."""
        group = (change.object.get("spec") or {}).get("group")
        wanted = {name: body for name, body in self._wanted() if body["spec"].get("group") == group}
        for name, body in wanted.items():
            if self._store.find(API_SERVICES, "", name) is None:
                self._store.create(API_SERVICES, body)
        for found in self._store.all(API_SERVICES):
            is_ours = labels_of(found).get(AUTO_MANAGED) == _DEFINED and found["spec"].get("group") == group
            if is_ours and found["metadata"]["name"] not in wanted:
                self._store.delete(API_SERVICES, "", found["metadata"]["name"])

    def _changed(self, change: StoreChange) -> None:
        name = change.object["metadata"]["name"]
        found = self._store.find(API_SERVICES, "", name)
        if found is not None:
            self._check(found)
        elif change.type == _DELETED and AUTO_MANAGED in labels_of(change.object):
            body = dict(self._wanted()).get(name)
            if body is not None:
                self._store.create(API_SERVICES, body)

    def _check(self, found: Json) -> None:
        """Write the availability of the APIService of an extension server, if it has changed."""
        service = found["spec"].get("service")
        if service is None:
            return
        self._follow_services()
        reason, message = self._problem(found["spec"], service)
        condition = {
            "type": "Available",
            "status": "False" if reason else "True",
            "lastTransitionTime": self._store.stamp(),
            "reason": reason or "Local",
            "message": message or "Local APIServices are always available",
        }
        known = find_condition(found, "Available") or {}
        if any(known.get(field) != condition[field] for field in ("status", "reason", "message")):
            status = with_condition(found, condition)
            try:
                self._store.update(API_SERVICES, {**found, "status": status}, subresource="status")
            except ApiError as error:
                if not error.is_not_found:
                    raise

    def _problem(self, spec: Json, service: Json) -> tuple[str, str]:
        """Reason and message of an APIService that is not available, both empty if it is."""
        group, version = spec.get("group", ""), spec["version"]
        if any((one.group, one.version) == (group, version) for one in self._served):
            # This server serves the group itself, such as metrics.k8s.io: requests do not leave it.
            return "", ""
        namespace, name, port = service.get("namespace", ""), service.get("name", ""), service["port"]
        there = self._store.find(SERVICES, namespace, name)
        if there is None:
            return "ServiceNotFound", f"service/{name} in {quote(namespace)} is not present"
        found = next((one for one in there["spec"].get("ports") or () if one.get("port") == port), None)
        if there["spec"].get("type") != "ExternalName":
            if found is None:
                text = f"service/{name} in {quote(namespace)} is not listening on port {port}"
                return "ServicePortError", text
            problem = self._endpoints_problem(namespace, name, found.get("name") or "")
            if problem[0]:
                return problem
        where = (
            f"failing or missing response from https://{name}.{namespace}.svc:{port}/apis/{group}/{version}"
        )
        if self._reachable(namespace, name, port):
            return "FailedDiscoveryCheck", f"{where}: requests are not forwarded to extension servers here"
        return "FailedDiscoveryCheck", f"{where}: the pods of the service are simulated: nothing listens"

    def _endpoints_problem(self, namespace: str, name: str, port: str) -> tuple[str, str]:
        slices = [
            one
            for one in self._store.within(ENDPOINT_SLICES, namespace)
            if labels_of(one).get(_SERVICE_NAME) == name
        ]
        if not slices:
            return "EndpointsNotFound", f"cannot find endpointslices for service/{name} in {quote(namespace)}"
        for one in slices:
            has_port = any((each.get("name") or "") == port for each in one.get("ports") or ())
            if has_port and any(map(_is_ready, one.get("endpoints") or ())):
                return "", ""
        text = f"endpointslices for service/{name} in {quote(namespace)} have no addresses with port name"
        return "MissingEndpoints", f"{text} {quote(port)}"

    def _follow_services(self) -> None:
        """Look at services and their endpoints, from the first APIService on that has one."""
        if not self._follows_services:
            self._follows_services = True
            self._store.watch(SERVICES, self._service_changed)
            self._store.watch(ENDPOINT_SLICES, self._service_changed)

    def _service_changed(self, change: StoreChange) -> None:
        metadata = change.object["metadata"]
        name = labels_of(change.object).get(_SERVICE_NAME, metadata["name"])
        for found in self._store.all(API_SERVICES):
            service = found["spec"].get("service") or {}
            if (service.get("namespace"), service.get("name")) == (metadata.get("namespace"), name):
                self._check(found)


def _priorities(group: str, version: str) -> tuple[int, int]:
    stable = _STABLE if "alpha" not in version and "beta" not in version else _UNSTABLE
    return _PRIORITIES.get(group, 100), _VERSION_PRIORITIES.get((group, version), stable)


def _is_ready(endpoint: Json) -> bool:
    return (endpoint.get("conditions") or {}).get("ready") is not False
