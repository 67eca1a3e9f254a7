"""Revisions of a Deployment: which of its ReplicaSets stands for which version of its template."""

from collections.abc import Mapping, Sequence
from typing import Final

from stowplan.api.catalogue import DEPLOYMENTS
from stowplan.api.requests import Json
from stowplan.embedded.controllers.informers import namespace_of
from stowplan.embedded.controllers.objects import (
    annotations_of,
    controller_reference,
    count_in,
    created_at,
    is_deleting,
    name_of,
    spec_of,
    status_of,
)
from stowplan.embedded.controllers.rollouts import DESIRED, MOST, Strategy
from stowplan.embedded.controllers.templates import short_hash

HASH: Final = "pod-template-hash"
REVISION: Final = "deployment.kubernetes.io/revision"
HISTORY: Final = "deployment.kubernetes.io/revision-history"
_NOT_COPIED: Final = frozenset(
    (
        "kubectl.kubernetes.io/last-applied-configuration",
        REVISION,
        HISTORY,
        DESIRED,
        MOST,
        "deprecated.deployment.rollback.to",
    )
)


def same_template(first: Json, second: Json) -> bool:
    """Whether two templates make the same pods, whatever the label says that tells their sets apart."""
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
    return int(text) if text.isdigit() else 0


def annotations_for(
    deployment: Json, found: Mapping[str, str], revision: int, strategy: Strategy
) -> dict[str, str]:
    """The annotations of the newest set, given those it has."""
    copied = {key: value for key, value in annotations_of(deployment).items() if key not in _NOT_COPIED}
    result = {**found, **copied, DESIRED: str(strategy.replicas), MOST: str(strategy.most)}
    old = found.get(REVISION, "")
    if not old.isdigit() or int(old) < revision:
        result[REVISION] = str(revision)
        if old:
            history = found.get(HISTORY, "")
            result[HISTORY] = f"{history},{old}" if history else old
    return result


def new_set(deployment: Json, replicas: int, revision: int, strategy: Strategy) -> Json:
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
            "name": f"{name_of(deployment)}-{digest}",
            "namespace": namespace_of(deployment),
            "labels": labels,
            "annotations": annotations_for(deployment, {}, revision, strategy),
            "ownerReferences": [controller_reference(DEPLOYMENTS, deployment)],
        },
        "spec": spec,
    }


def outdated(deployment: Json, old: Sequence[Json]) -> list[Json]:
    """Old sets that are kept no more: the oldest of those that are empty."""
    limit = count_in(spec_of(deployment), "revisionHistoryLimit", 10)
    empty = [
        one
        for one in old
        if not is_deleting(one)
        and not count_in(status_of(one), "replicas")
        and spec_of(one).get("replicas") == 0
        and count_in(status_of(one), "observedGeneration") >= one["metadata"].get("generation", 0)
    ]
    empty.sort(key=lambda one: (revision_of(one), created_at(one), name_of(one)))
    return empty[: max(len(old) - limit, 0)]
