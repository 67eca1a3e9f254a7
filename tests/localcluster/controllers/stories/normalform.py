"""The normal form of what a cluster shows: without what differs in every run, or is not of controllers."""

import copy
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from localcluster.controllers.stories.recording import Item
from stowplan.localcluster.objects.fields import is_ready

SHARED_NODES = ("shared-1", "shared-2", "shared-3", "shared-4")
COMBINED = "(combined from similar events)"

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_ADDRESS = re.compile(r"\b10\.\d+\.\d+\.\d+\b")
_UID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_REFUSED_POD = re.compile(r"(<hash\d+>)-[a-z0-9]{5}\b")
_CRON_JOB = re.compile(r"\b(cron-[a-z-]+-)\d{8}\b")

_METADATA = [
    "name",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "generation",
    "deletionGracePeriodSeconds",
]
_POD_SPEC = [
    "hostname",
    "subdomain",
    "nodeName",
    "restartPolicy",
    "tolerations",
    "affinity",
    "volumes",
    "activeDeadlineSeconds",
    "resourceClaims",
    "priorityClassName",
]
_POD_STATUS = ["phase", "reason", "message", "conditions", "resourceClaimStatuses"]
_OTHER_FIELDS = [
    "endpoints",
    "ports",
    "addressType",
    "subsets",
    "type",
    "revision",
    "secrets",
    "imagePullSecrets",
]
_TIMES_OF_CONDITIONS = ["lastTransitionTime", "lastUpdateTime", "lastProbeTime", "lastHeartbeatTime"]
_WITHOUT_GENERATION = ("pods", "persistentvolumeclaims", "persistentvolumes", "endpointslices")
_KUBELETS_CONDITIONS = ("Initialized", "Ready", "ContainersReady")
_TRIGGER_TIME = "endpoints.kubernetes.io/last-change-trigger-time"
_REVISION_HASHES = ("pod-template-hash", "controller-revision-hash", "controller.kubernetes.io/hash")


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


class Names:
    """Placeholders for generated names, hashes, uids, times and addresses of one namespace."""

    def __init__(self, seen: Mapping[str, Iterable[Item]]) -> None:
        self._hashes: dict[str, str] = {}
        for plural in ("replicasets", "controllerrevisions"):
            counts: Counter[str] = Counter()
            for obj in sorted(seen.get(plural, ()), key=_order_of_creation):
                owner = _owner(obj).get("name", "")
                found = _hash_of(plural, obj, owner)
                if found and found not in self._hashes:
                    counts[owner] += 1
                    self._hashes[found] = f"<hash{counts[owner]}>"
        standing = {
            obj["metadata"]["name"]: name
            for plural, objects in seen.items()
            for obj in objects
            if (name := _standing_name(plural, obj))
        }
        # The longest first: a pod's name begins with its owner's.
        self._names = sorted(standing.items(), key=lambda pair: -len(pair[0]))

    def text(self, value: str) -> str:
        for name, standing in (*self._names, *self._hashes.items()):
            if name in value:
                value = value.replace(name, standing)
        value = _UID.sub("<uid>", _TIME.sub("<time>", value))
        value = _CRON_JOB.sub(r"\1#", _REFUSED_POD.sub(r"\1-*", value))
        return _ADDRESS.sub("<ip>", value)

    def walk(self, value: Any) -> Any:
        if isinstance(value, str):
            return "<node>" if value in SHARED_NODES else self.text(value)
        if isinstance(value, dict):
            kept = {k: v for k, v in value.items() if v is not None and k != "resourceVersion"}
            return {self.text(key): self.walk(inner) for key, inner in kept.items()}
        if isinstance(value, list):
            return [self.walk(inner) for inner in value]
        return value


def _order_of_creation(obj: Item) -> tuple[str, int]:
    return obj["metadata"].get("creationTimestamp") or "", obj.get("revision") or 0


def _owner(obj: Item) -> Item:
    owner: Item = (obj["metadata"].get("ownerReferences") or [{}])[0]
    return owner


def _hash_of(plural: str, obj: Item, owner: str) -> str:
    name: str = obj["metadata"]["name"]
    if plural == "controllerrevisions" and owner and name.startswith(f"{owner}-"):
        return name.removeprefix(f"{owner}-")
    labels = obj["metadata"].get("labels") or {}
    return next((labels[key] for key in _REVISION_HASHES if labels.get(key)), "")


def _standing_name(plural: str, obj: Item) -> str:
    """Placeholder for an object's name, empty if its name is the same in every run."""
    meta, owner = obj["metadata"], _owner(obj)
    name: str = meta["name"]
    if plural == "pods" and owner.get("kind") == "Job" and not meta.get("generateName"):
        return f"{owner['name']}-*"
    if plural == "jobs" and owner.get("kind") == "CronJob":
        return f"{owner['name']}-#"
    service = (meta.get("labels") or {}).get("kubernetes.io/service-name")
    if plural == "endpointslices" and service and name.startswith(f"{service}-"):
        return f"{service}-*"
    has_ordinal = name.rpartition("-")[2].isdigit() and (
        plural != "pods" or owner.get("kind") in ("StatefulSet", None)
    )
    return f"{meta['generateName']}*" if meta.get("generateName") and not has_ordinal else ""


# Objects


def lean(plural: str, obj: Item) -> Item:
    """An object without what is not the controllers' doing."""
    obj = copy.deepcopy(obj)
    out: Item = {"metadata": _lean_metadata(plural, obj)}
    spec, status = obj.get("spec"), obj.get("status")
    if plural == "pods":
        out["ready"] = is_ready(obj)
        spec, status = _lean_pod_spec(obj), _lean_pod_status(status or {})
    elif plural == "nodes":
        spec, status = _lean_node_spec(spec or {}), {"conditions": (status or {}).get("conditions")}
    elif isinstance(spec, dict):
        template = spec.pop("template", None)
        if plural in ("replicasets", "jobs") and template:
            spec["templateLabels"] = (template.get("metadata") or {}).get("labels")
        spec.pop("jobTemplate", None)
        spec.pop("volumeClaimTemplates", None)
    for condition in (status.get("conditions") or ()) if isinstance(status, dict) else ():
        condition.update({k: condition[k] and "<time>" for k in _TIMES_OF_CONDITIONS if k in condition})
    out |= {key: value for key, value in (("spec", spec), ("status", status)) if value}
    out |= {key: obj[key] for key in _OTHER_FIELDS if obj.get(key) is not None}
    data = obj.get("data") or obj.get("stringData")
    if data and plural in ("configmaps", "secrets"):
        out["dataKeys"] = sorted(data)
    return out


def _lean_metadata(plural: str, obj: Item) -> Item:
    meta = obj["metadata"]
    kept = {key: meta[key] for key in _METADATA if meta.get(key) not in (None, {}, [])}
    if meta.get("deletionTimestamp"):
        kept["deleting"] = True
    if plural == "nodes":
        return {key: kept[key] for key in ("name", "deleting") if key in kept}
    if plural in _WITHOUT_GENERATION:
        kept.pop("generation", None)
    if plural == "replicasets":
        # How often it was scaled is a matter of timing.
        observed = (obj.get("status") or {}).pop("observedGeneration", None)
        kept["observed"] = kept.pop("generation", None) == observed
    if plural == "namespaces":
        kept.pop("labels", None)
    for owner in kept.get("ownerReferences") or ():
        owner["uid"] = "<uid>"
    if "finalizers" in kept:
        kept["finalizers"].sort()
    notes = {k: v for k, v in kept.pop("annotations", {}).items() if not k.startswith("stories/")}
    if _TRIGGER_TIME in notes:
        notes[_TRIGGER_TIME] = "<time>"
    return {**kept, "annotations": notes} if notes else kept


def _lean_pod_spec(pod: Item) -> Item:
    spec = {key: pod["spec"][key] for key in _POD_SPEC if pod["spec"].get(key) not in (None, [], {})}
    volumes = [v for v in spec.pop("volumes", ()) if not v["name"].startswith("kube-api-access-")]
    if volumes:
        spec["volumes"] = volumes
    env = [
        variable
        for container in pod["spec"].get("containers") or ()
        for variable in container.get("env") or ()
        if variable["name"].startswith("JOB_")
    ]
    if env:
        spec["env"] = env
    if "tolerations" in spec:
        spec["tolerations"].sort(key=canonical)
    return spec


def _lean_pod_status(status: Item) -> Item:
    kept = {key: status[key] for key in _POD_STATUS if status.get(key)}
    kept["conditions"] = [
        one for one in kept.get("conditions") or () if one["type"] not in _KUBELETS_CONDITIONS
    ]
    for condition in kept["conditions"]:
        if condition["type"] == "PodScheduled":
            condition.pop("message", None)  # the scheduler's: it counts all nodes there are
    return kept


def _lean_node_spec(spec: Item) -> Item:
    kept: Item = {key: spec[key] for key in ("taints", "unschedulable") if spec.get(key)}
    for taint in kept.get("taints") or ():
        if "timeAdded" in taint:
            taint["timeAdded"] = "<time>"
    if "taints" in kept:
        kept["taints"].sort(key=lambda taint: (taint["key"], taint["effect"]))
    return kept


def sorted_objects(plural: str, objects: Iterable[Item], names: Names) -> list[Item]:
    """Objects with placeholder names; sets are sorted."""
    walked: list[Item] = [names.walk(obj) for obj in objects]
    for obj in walked:
        if isinstance(obj.get("endpoints"), list):
            obj["endpoints"].sort(key=canonical)
        for subset in obj.get("subsets") or ():
            for part in subset.values():
                part.sort(key=canonical)
        conditions = (obj.get("status") or {}).get("conditions")
        if plural != "jobs" and isinstance(conditions, list):
            conditions.sort(key=lambda one: one["type"])
    return sorted(walked, key=lambda obj: (obj.get("metadata", {}).get("name", ""), canonical(obj)))


# Events


def lean_event(event: Item) -> Item:
    about = event.get("involvedObject") or {}
    return {
        "object": f"{about.get('kind', '')}/{about.get('name') or ''}",
        "type": event.get("type"),
        "reason": event.get("reason"),
        "message": event.get("message"),
        "from": event.get("reportingComponent") or (event.get("source") or {}).get("component"),
        "count": (event.get("series") or {}).get("count") or event.get("count") or 1,
    }


def summed_events(events: Iterable[Item], names: Names) -> list[Item]:
    """Equal events once, with how often they came; the scheduler's are left out."""
    totals: Counter[str] = Counter()
    for event in events:
        if event["from"] == "default-scheduler" or event["reason"] in ("Scheduled", "FailedScheduling"):
            continue
        message = COMBINED if event["message"].startswith(COMBINED) else event["message"]
        told = {key: value for key, value in event.items() if key != "count"}
        totals[canonical(names.walk({**told, "message": message}))] += event["count"]
    summed = [{**json.loads(text), "count": count} for text, count in totals.items()]
    return sorted(summed, key=canonical)
