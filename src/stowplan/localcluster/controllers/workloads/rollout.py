"""How a Deployment rolls out: its revisions, and how many pods each of its ReplicaSets is to have."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from stowplan.api.catalogue import DEPLOYMENTS
from stowplan.api.requests import Json
from stowplan.gocompat.numbers import parse_count
from stowplan.localcluster.controllers.workloads.podcontrol import scaled_value, short_hash
from stowplan.localcluster.objects.fields import (
    annotations_of,
    controller_reference,
    count_in,
    created_at,
    is_deleting,
    name_of,
    namespace_of,
    spec_of,
    status_of,
)

DESIRED_REPLICAS: Final = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS: Final = "deployment.kubernetes.io/max-replicas"


@dataclass(slots=True)
class RolloutPart:
    """A ReplicaSet of a Deployment: its wanted number of pods, and the number of available ones.

    Available pods beyond the wanted number are about to be deleted: counting them would shrink the other sets
    too far. Until they have gone they are `held`: not counting them would let sets grow too far.
    """

    obj: Json
    replicas: int
    available: int
    pods: int = 0

    @classmethod
    def of(cls, replica_set: Json) -> "RolloutPart":
        replicas = count_in(spec_of(replica_set), "replicas", 1)
        status = status_of(replica_set)
        available = min(count_in(status, "availableReplicas"), replicas)
        return cls(replica_set, replicas, available, count_in(status, "replicas"))

    @property
    def held(self) -> int:
        return max(self.replicas, self.pods)

    @property
    def age(self) -> tuple[float, str]:
        return created_at(self.obj), name_of(self.obj)


@dataclass(frozen=True, slots=True)
class RolloutStrategy:
    """Number of wanted pods, of temporary extra ones, and of those that may be missing."""

    replicas: int
    surge: int
    unavailable: int
    recreate: bool = False

    @classmethod
    def of(cls, deployment: Json) -> "RolloutStrategy":
        spec = spec_of(deployment)
        replicas = count_in(spec, "replicas", 1)
        given = spec.get("strategy") or {}
        if given.get("type") == "Recreate":
            return cls(replicas, 0, 0, recreate=True)
        rolling = given.get("rollingUpdate") or {}
        surge = scaled_value(rolling.get("maxSurge"), replicas, "25%", round_up=True)
        unavailable = scaled_value(rolling.get("maxUnavailable"), replicas, "25%", round_up=False)
        if surge == 0 and unavailable == 0:
            unavailable = 1
        return cls(replicas, surge, min(unavailable, replicas))

    @property
    def most(self) -> int:
        """The most pods there may be at a time."""
        return self.replicas + self.surge

    @property
    def least_available(self) -> int:
        return self.replicas - self.unavailable

    @property
    def annotations(self) -> dict[str, str]:
        """Annotations of a ReplicaSet about the size of its Deployment."""
        return {DESIRED_REPLICAS: str(self.replicas), MAX_REPLICAS: str(self.most)}


def total(parts: Sequence[RolloutPart]) -> int:
    return sum(part.replicas for part in parts)


def grow_new(strategy: RolloutStrategy, new: RolloutPart, old: Sequence[RolloutPart]) -> int:
    """Current size of the newest set.

    Where pods may be missing it does not wait for those of the others to go, as upstream does not.
    """
    if new.replicas >= strategy.replicas or strategy.recreate:
        return strategy.replicas
    there = sum(part.replicas if strategy.unavailable else part.held for part in old)
    room = strategy.most - new.replicas - there
    return new.replicas + min(max(room, 0), strategy.replicas - new.replicas)


def shrink_old(strategy: RolloutStrategy, new: RolloutPart, old: Sequence[RolloutPart]) -> dict[str, int]:
    """Current sizes of old sets, by name: unavailable pods go first."""
    wanted = {name_of(part.obj): part.replicas for part in old}
    spare = total([new, *old]) - strategy.least_available - (new.replicas - new.available)
    if spare <= 0:
        return wanted
    by_age = sorted(old, key=lambda part: part.age)
    for part in by_age:
        gone = max(min(spare, part.replicas - part.available), 0)
        wanted[name_of(part.obj)] -= gone
        spare -= gone
    extra = sum(part.available for part in (new, *old)) - strategy.least_available
    for part in by_age:
        gone = max(min(extra, wanted[name_of(part.obj)]), 0)
        wanted[name_of(part.obj)] -= gone
        extra -= gone
    return wanted


def is_scaling(strategy: RolloutStrategy, parts: Sequence[RolloutPart]) -> bool:
    """True if the Deployment was resized since its ReplicaSets were last scaled."""
    return any(
        part.replicas > 0
        and DESIRED_REPLICAS in annotations_of(part.obj)
        and annotations_of(part.obj)[DESIRED_REPLICAS] != str(strategy.replicas)
        for part in parts
    )


def scale(
    strategy: RolloutStrategy, new: RolloutPart | None, old: Sequence[RolloutPart], actual: int = 0
) -> dict[str, int]:
    """New sizes of the sets by name after the Deployment was resized.

    A single set takes all. In the middle of a rollout all sets share it in proportion to their sizes.
    `actual` is the current number of pods, the base for sets without an annotation of the total.
    """
    parts = [*old, *([new] if new is not None else [])]
    active = [part for part in parts if part.replicas > 0]
    if len(active) <= 1:
        one = active[0] if active else new or max(parts, key=lambda part: part.age, default=None)
        return {} if one is None else {name_of(one.obj): strategy.replicas}
    if new is not None and _is_saturated(strategy, new):
        return {name_of(part.obj): 0 for part in old}
    if strategy.recreate:
        return {}
    return _in_proportion(strategy, active, actual)


def _is_saturated(strategy: RolloutStrategy, new: RolloutPart) -> bool:
    return new.replicas == strategy.replicas == new.available and annotations_of(new.obj).get(
        DESIRED_REPLICAS
    ) == str(strategy.replicas)


def _in_proportion(strategy: RolloutStrategy, active: Sequence[RolloutPart], actual: int) -> dict[str, int]:
    add = (strategy.most if strategy.replicas else 0) - total(active)
    ordered = sorted(active, key=lambda part: part.age, reverse=add > 0)
    ordered.sort(key=lambda part: -part.replicas)
    wanted: dict[str, int] = {}
    added = 0
    for part in ordered:
        fraction = _fraction(strategy, part, actual) if add else 0
        left = add - added
        step = min(fraction, left) if add > 0 else max(fraction, left)
        wanted[name_of(part.obj)] = part.replicas + step
        added += step
    first = name_of(ordered[0].obj)
    wanted[first] = max(wanted[first] + add - added, 0)
    return wanted


def _fraction(strategy: RolloutStrategy, part: RolloutPart, actual: int) -> int:
    """Change of a set in proportion to the whole."""
    if strategy.replicas == 0:
        return -part.replicas
    noted = annotations_of(part.obj).get(MAX_REPLICAS, "")
    before = int(noted) if noted.isdigit() and int(noted) else actual
    return int(part.replicas * strategy.most / before + 0.5) - part.replicas if before else 0


MAX_NAME_LENGTH: Final = 253
HASH: Final = "pod-template-hash"
REVISION: Final = "deployment.kubernetes.io/revision"
HISTORY: Final = "deployment.kubernetes.io/revision-history"
MAX_HISTORY_LENGTH: Final = 2000
_NOT_COPIED: Final = frozenset(
    (
        "kubectl.kubernetes.io/last-applied-configuration",
        REVISION,
        HISTORY,
        DESIRED_REPLICAS,
        MAX_REPLICAS,
        "deprecated.deployment.rollback.to",
    )
)


def same_template(first: Json, second: Json) -> bool:
    """True if two templates make the same pods, apart from the label that distinguishes their sets."""
    return _without_hash(first) == _without_hash(second)


def _without_hash(template: Json) -> Json:
    metadata = template.get("metadata") or {}
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != HASH}
    kept = {key: value for key, value in metadata.items() if key != "creationTimestamp" or value}
    return {**template, "metadata": {**kept, "labels": labels}}


def find_new(deployment: Json, sets: Sequence[Json]) -> Json | None:
    """The set of the present template: the oldest if there are several."""
    template = spec_of(deployment).get("template") or {}
    same = [one for one in sets if same_template(spec_of(one).get("template") or {}, template)]
    return min(same, key=lambda one: (created_at(one), name_of(one)), default=None)


def revision_of(obj: Json) -> int:
    text = annotations_of(obj).get(REVISION, "0")
    return parse_count(text) or 0


def annotations_for(deployment: Json, found: Mapping[str, str], revision: int) -> dict[str, str]:
    """The annotations of the newest set, given those it has."""
    copied = {key: value for key, value in annotations_of(deployment).items() if key not in _NOT_COPIED}
    result = {**found, **copied}
    old = found.get(REVISION, "")
    if not old or (old.isdigit() and int(old) < revision):
        result[REVISION] = str(revision)
        if old:
            result[HISTORY] = _with_revision(found.get(HISTORY, ""), old)
    return result


def _with_revision(history: str, revision: str) -> str:
    """The revisions a set has had, without the first ones if they become too many."""
    known = [*filter(None, history.split(",")), revision]
    while len(",".join(known)) > MAX_HISTORY_LENGTH:
        del known[0]
    return ",".join(known)


def new_set(deployment: Json, replicas: int, revision: int, strategy: RolloutStrategy) -> Json:
    """The ReplicaSet of the present template."""
    template = spec_of(deployment).get("template") or {}
    digest = short_hash(template, count_in(status_of(deployment), "collisionCount"))
    metadata = template.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), HASH: digest}
    selector = spec_of(deployment).get("selector") or {}
    chosen = {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), HASH: digest}}
    spec: Json = {
        "replicas": replicas,
        "selector": chosen,
        "template": {**template, "metadata": {**metadata, "labels": labels}},
    }
    min_ready = count_in(spec_of(deployment), "minReadySeconds")
    if min_ready:
        spec["minReadySeconds"] = min_ready
    return {
        "metadata": {
            "name": f"{name_of(deployment)[: MAX_NAME_LENGTH - len(digest) - 1]}-{digest}",
            "namespace": namespace_of(deployment),
            "labels": labels,
            "annotations": {**annotations_for(deployment, {}, revision), **strategy.annotations},
            "ownerReferences": [controller_reference(DEPLOYMENTS, deployment)],
        },
        "spec": spec,
    }


def outdated(deployment: Json, old: Sequence[Json]) -> list[Json]:
    """Old sets that are kept no more: of the oldest, those that are empty."""
    limit = count_in(spec_of(deployment), "revisionHistoryLimit", 10)
    staying = [one for one in old if not is_deleting(one)]
    staying.sort(key=lambda one: (revision_of(one), created_at(one), name_of(one)))
    return [
        one
        for one in staying[: max(len(staying) - limit, 0)]
        if not count_in(status_of(one), "replicas")
        and spec_of(one).get("replicas") == 0
        and count_in(status_of(one), "observedGeneration") >= one["metadata"].get("generation", 0)
    ]
