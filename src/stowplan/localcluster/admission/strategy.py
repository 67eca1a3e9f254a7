"""Values that upstream's registries set on an object of a kind, for every writer, before it is validated."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json
from stowplan.localcluster.quota.qos import qos_class
from stowplan.localcluster.store.writer import WriteContext

_TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"
_CONTROLLER_UID: Final = "batch.kubernetes.io/controller-uid"


def add_namespace_finalizer(namespace: Json) -> None:
    """A namespace stays until what it contains is gone."""
    held = (namespace.get("spec") or {}).get("finalizers") or []
    if "kubernetes" not in held:
        namespace.setdefault("spec", {})["finalizers"] = [*held, "kubernetes"]


def keep_namespace_finalizers(old: Json, new: Json) -> None:
    """Finalizers of a namespace are changed by the finalize subresource only."""
    spec = new.setdefault("spec", {})
    held = (old.get("spec") or {}).get("finalizers")
    if held:
        spec["finalizers"] = held
    else:
        spec.pop("finalizers", None)


def generate_job_selector(job: Json) -> None:
    """A job selects its pods by labels that only they have.

    Its template may still be that of the object which makes jobs, so it is not changed in place.
    """
    spec, metadata = job["spec"], job["metadata"]
    template = spec.get("template")
    if template is None:
        return
    if not spec.get("manualSelector"):
        uid, name = metadata["uid"], metadata["name"]
        own = {
            _CONTROLLER_UID: uid,
            "batch.kubernetes.io/job-name": name,
            "controller-uid": uid,
            "job-name": name,
        }
        of_pods = template.get("metadata") or {}
        labelled = {**of_pods, "labels": dict(sorted({**own, **(of_pods.get("labels") or {})}.items()))}
        given = spec.get("selector") or {}
        chosen = {_CONTROLLER_UID: uid, **(given.get("matchLabels") or {})}
        selector = {**given, "matchLabels": dict(sorted(chosen.items()))}
        job["spec"] = {**spec, "selector": selector, "template": {**template, "metadata": labelled}}
    default_job_labels(job)


def default_job_labels(job: Json) -> None:
    """A job without labels gets those of its pods."""
    labels = ((job["spec"].get("template") or {}).get("metadata") or {}).get("labels")
    if labels and not job["metadata"].get("labels"):
        job["metadata"]["labels"] = dict(labels)


def _keep_job_labels(old: Json, new: Json) -> None:
    default_job_labels(new)


def first_template_generation(daemon_set: Json) -> None:
    metadata = daemon_set["metadata"]
    metadata["annotations"] = {**(metadata.get("annotations") or {}), _TEMPLATE_GENERATION: "1"}


def next_template_generation(old: Json, new: Json) -> None:
    """A DaemonSet counts the changes of its template."""
    count = (old["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION, "0")
    number = int(count) if count.isdecimal() else 0
    if (old.get("spec") or {}).get("template") != (new.get("spec") or {}).get("template"):
        number += 1
    annotations = {**(new["metadata"].get("annotations") or {}), _TEMPLATE_GENERATION: str(number)}
    new["metadata"]["annotations"] = annotations


def normalize_cluster_ips(service: Json) -> None:
    """`clusterIP` is the first of `clusterIPs`."""
    spec = service["spec"]
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]


def drop_max_unavailable(stateful_set: Json) -> None:
    """Behind the gate MaxUnavailableStatefulSet, which is off by default."""
    spec = stateful_set.get("spec") or {}
    strategy = spec.get("updateStrategy") or {}
    rolling = strategy.get("rollingUpdate") or {}
    if "maxUnavailable" in rolling:
        kept = {field: value for field, value in rolling.items() if field != "maxUnavailable"}
        stateful_set["spec"] = {**spec, "updateStrategy": {**strategy, "rollingUpdate": kept}}


def _drop_new_max_unavailable(old: Json, new: Json) -> None:
    drop_max_unavailable(new)


def set_qos_class(pod: Json) -> None:
    pod["status"]["qosClass"] = qos_class(pod["spec"])


def set_transition_time(volume: Json) -> None:
    volume["status"]["lastPhaseTransitionTime"] = volume["metadata"]["creationTimestamp"]


_ALSO_KEPT: Final = ("resourceClaimStatuses", "extendedResourceClaimStatus")


def prepare_pod_status(old: Json, new: Json) -> None:
    """A pod's quality of service never changes, and `podIP` is the first of `podIPs`."""
    before, after = old.get("status") or {}, new.get("status")
    if not isinstance(after, dict):
        return
    changed: Json = {}
    if "qosClass" in before and not after.get("qosClass"):
        changed["qosClass"] = before["qosClass"]
    for field in _ALSO_KEPT:
        if field in before and after.get(field) is None:
            changed[field] = before[field]
    address, addresses = after.get("podIP"), after.get("podIPs")
    if address and (not addresses or addresses[0].get("ip") != address):
        changed["podIPs"] = [{"ip": address}]
    elif addresses and not address:
        changed["podIP"] = addresses[0].get("ip", "")
    if changed:
        new["status"] = {**after, **changed}


def set_ip_mode(old: Json, new: Json) -> None:
    """The address of a load balancer is one that it serves itself, unless its writer says otherwise."""
    status = new.get("status")
    if not isinstance(status, dict) or (old.get("spec") or {}).get("type") != "LoadBalancer":
        return
    shown = (status.get("loadBalancer") or {}).get("ingress") or ()
    if any(one.get("ip") and "ipMode" not in one for one in shown):
        ingress = [{**one, "ipMode": one.get("ipMode", "VIP")} if one.get("ip") else one for one in shown]
        new["status"] = {**status, "loadBalancer": {**status["loadBalancer"], "ingress": ingress}}


def keep_all_but_ephemeral_containers(old: Json, new: Json) -> None:
    """Nothing else of a pod is changed by the subresource `ephemeralcontainers`."""
    given = (new.get("spec") or {}).get("ephemeralContainers")
    spec = {field: value for field, value in old["spec"].items() if field != "ephemeralContainers"}
    new["spec"] = {**spec, "ephemeralContainers": given} if given else spec


def keep_all_but_resources(old: Json, new: Json) -> None:
    """Nothing else of a pod is changed by the subresource `resize`."""
    given, spec = new.get("spec") or {}, dict(old["spec"])
    for kind in ("containers", "initContainers"):
        wanted = {container.get("name"): container for container in given.get(kind) or ()}
        kept = [_resized(container, wanted.get(container.get("name"))) for container in spec.get(kind) or ()]
        if kept:
            spec[kind] = kept
    new["spec"] = spec


def _resized(container: Json, wanted: Json | None) -> Json:
    if wanted is None:
        return container
    changed: Json = {field: wanted[field] for field in ("resources", "resizePolicy") if field in wanted}
    return {**container, **changed}


PREPARE_POD_PART: Final[Mapping[str, Callable[[Json, Json], None]]] = {
    "ephemeralcontainers": keep_all_but_ephemeral_containers,
    "resize": keep_all_but_resources,
}


def set_requestor(request: Json, by: WriteContext) -> None:
    """A request for a certificate says who made it; what its body says of that does not count."""
    spec = request.setdefault("spec", {})
    for field in ("uid", "extra"):
        spec.pop(field, None)
    spec["username"], spec["groups"] = by.user.name, [*by.user.groups]


def date_changed_effect(old: Json, new: Json, stamp: str) -> None:
    """The taint of a rule is as old as its effect, unless who changes the effect says otherwise."""
    before, after = ((rule.get("spec") or {}).get("taint") or {} for rule in (old, new))
    if before.get("effect") != after.get("effect") and before.get("timeAdded") == after.get("timeAdded"):
        new["spec"] = {**new["spec"], "taint": {**after, "timeAdded": stamp}}


_DEVICE_KEY: Final = ("driver", "pool", "device", "shareID")


def drop_deallocated_devices(old: Json, new: Json) -> None:
    """Drop devices that drivers reported once their allocation is gone."""
    status = new.get("status")
    if not isinstance(status, dict) or not status.get("devices"):
        return
    gone = _allocated(old) - _allocated(new)
    if not gone:
        return
    kept = [one for one in status["devices"] if tuple(one.get(part) for part in _DEVICE_KEY) not in gone]
    status = {field: value for field, value in status.items() if field != "devices"}
    new["status"] = {**status, "devices": kept} if kept else status


def _allocated(claim: Json) -> set[tuple[Any, ...]]:
    devices = ((claim.get("status") or {}).get("allocation") or {}).get("devices") or {}
    return {tuple(one.get(part) for part in _DEVICE_KEY) for one in devices.get("results") or ()}


PREPARE_CREATED: Final[Mapping[Resource, Callable[[Json], None]]] = {
    catalogue.PODS: set_qos_class,
    catalogue.SERVICES: normalize_cluster_ips,
    catalogue.PERSISTENT_VOLUMES: set_transition_time,
    catalogue.NAMESPACES: add_namespace_finalizer,
    catalogue.JOBS: generate_job_selector,
    catalogue.DAEMON_SETS: first_template_generation,
    catalogue.STATEFUL_SETS: drop_max_unavailable,
}
PREPARE_UPDATED: Final[Mapping[Resource, Callable[[Json, Json], None]]] = {
    catalogue.NAMESPACES: keep_namespace_finalizers,
    catalogue.JOBS: _keep_job_labels,
    catalogue.DAEMON_SETS: next_template_generation,
    catalogue.STATEFUL_SETS: _drop_new_max_unavailable,
}
PREPARE_STATUS: Final[Mapping[Resource, Callable[[Json, Json], None]]] = {
    catalogue.PODS: prepare_pod_status,
    catalogue.SERVICES: set_ip_mode,
    catalogue.RESOURCE_CLAIMS: drop_deallocated_devices,
}
