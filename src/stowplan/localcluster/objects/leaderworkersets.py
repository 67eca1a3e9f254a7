"""LeaderWorkerSets (`leaderworkerset.x-k8s.io/v1`): labels, names and defaults."""

from hashlib import sha1
from typing import Final

from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json
from stowplan.gocompat.numbers import parse_count
from stowplan.localcluster.objects.fields import annotations_of, count_in, labels_of, spec_of

LEADER_WORKER_SETS: Final = Resource("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "", custom=True)
KIND: Final = "LeaderWorkerSet"

_PREFIX: Final = "leaderworkerset.sigs.k8s.io/"
SET_NAME: Final = _PREFIX + "name"
GROUP_INDEX: Final = _PREFIX + "group-index"
GROUP_KEY: Final = _PREFIX + "group-key"
WORKER_INDEX: Final = _PREFIX + "worker-index"
REVISION: Final = _PREFIX + "template-revision-hash"
SUBGROUP_INDEX: Final = _PREFIX + "subgroup-index"
SUBGROUP_KEY: Final = _PREFIX + "subgroup-key"
"""Labels."""

SIZE: Final = _PREFIX + "size"
REPLICAS: Final = _PREFIX + "replicas"
LEADER_NAME: Final = _PREFIX + "leader-name"
EXCLUSIVE: Final = _PREFIX + "exclusive-topology"
SUBGROUP_SIZE: Final = _PREFIX + "subgroup-size"
SUBGROUP_TYPE: Final = _PREFIX + "subgroup-policy-type"
SUBGROUP_EXCLUSIVE: Final = _PREFIX + "subgroup-exclusive-topology"
SUBDOMAIN_POLICY: Final = _PREFIX + "subdomainPolicy"
AFTER_START: Final = _PREFIX + "experimental-recreate-group-after-start"
"""Annotations."""

GANG: Final = "stowplan.io/gang"
"""Annotation of pods whose group is to be scheduled as a gang; only where PodGroups are served."""

UNIQUE: Final = "UniquePerReplica"
LEADER_READY: Final = "LeaderReady"
LEADER_EXCLUDED: Final = "LeaderExcluded"


def with_defaults(obj: Json) -> Json:
    """A LeaderWorkerSet with the defaults that its definition and its webhook set."""
    spec = dict(spec_of(obj))
    spec.setdefault("replicas", 1)
    spec.setdefault("startupPolicy", "LeaderCreated")
    template = {
        "size": 1,
        "restartPolicy": "RecreateGroupOnPodRestart",
        **_part(spec, "leaderWorkerTemplate"),
    }
    if template["restartPolicy"] == "Default":
        template["restartPolicy"] = "None"
    if template.get("subGroupPolicy"):
        template["subGroupPolicy"] = {"subGroupPolicyType": "LeaderWorker", **template["subGroupPolicy"]}
    spec["leaderWorkerTemplate"] = template
    rollout = {"type": "RollingUpdate", **_part(spec, "rolloutStrategy")}
    rolling = {"partition": 0, "maxUnavailable": 1, "maxSurge": 0}
    rollout["rollingUpdateConfiguration"] = {**rolling, **_part(rollout, "rollingUpdateConfiguration")}
    spec["rolloutStrategy"] = rollout
    spec["networkConfig"] = {"subdomainPolicy": "Shared", **_part(spec, "networkConfig")}
    return {**obj, "spec": spec}


def _part(holder: Json, name: str) -> Json:
    return holder.get(name) or {}


def template_in(obj: Json) -> Json:
    return _part(spec_of(obj), "leaderWorkerTemplate")


def size_of(obj: Json) -> int:
    """Pods of a group, the leader included."""
    return count_in(template_in(obj), "size", 1)


def has_own_subdomains(obj: Json) -> bool:
    """True if each group has a headless service."""
    return _part(spec_of(obj), "networkConfig").get("subdomainPolicy") == UNIQUE


def is_leader(pod: Json) -> bool:
    return labels_of(pod).get(WORKER_INDEX) == "0"


def ordinal_in(name: str) -> tuple[str, int] | None:
    """The name without its number, and the number; None if it ends in no number."""
    prefix, dash, number = name.rpartition("-")
    return (prefix, int(number)) if dash and number.isascii() and number.isdigit() else None


def unique_key(*parts: str) -> str:
    """The value of the labels `group-key` and `subgroup-key`."""
    return sha1("/".join(parts).encode(), usedforsecurity=False).hexdigest()


def subgroup_of(pods: int, size: int, worker: int) -> int:
    """The subgroup of a worker. A leader that makes the group one larger counts as extra pod of the first."""
    if (pods - 1) % size == 0 and pods % size != 0:
        return (worker - 1) // size
    return worker // size


def group_name(name: str, index: str, revision: str) -> str:
    """Name of the PodGroup of a group."""
    return f"{name}-{index}-{revision}"


def number_in(holder: Json, name: str) -> int:
    """A number that an annotation holds; 0 if it holds none."""
    return parse_count(annotations_of(holder).get(name, "")) or 0
