"""Defaults of the groups apps and batch, and of ReplicationControllers."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json
from stowplan.localcluster.admission.defaults.core import default_claim
from stowplan.localcluster.admission.defaults.podspec import default_pod_spec, fill

_MAX_INT32: Final = (1 << 31) - 1
_TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"


def _spec_of(obj: Json) -> Json:
    spec: Json = obj.setdefault("spec", {})
    template = spec.get("template")
    if template is not None:
        default_pod_spec(template.setdefault("spec", {}))
    return spec


def default_deployment(obj: Json) -> None:
    spec = _spec_of(obj)
    fill(spec, {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600})
    strategy = _strategy(spec, "strategy")
    if strategy["type"] == "RollingUpdate":
        fill(strategy.setdefault("rollingUpdate", {}), {"maxUnavailable": "25%", "maxSurge": "25%"})


def _strategy(spec: Json, field: str) -> Json:
    if spec.get(field) is None:
        spec[field] = {}
    strategy: Json = spec[field]
    fill(strategy, {"type": "RollingUpdate"})
    return strategy


def default_replica_set(obj: Json) -> None:
    _spec_of(obj).setdefault("replicas", 1)


def default_replication_controller(obj: Json) -> None:
    spec = _spec_of(obj)
    spec.setdefault("replicas", 1)
    labels = _template_labels(spec)
    if labels and not spec.get("selector"):
        spec["selector"] = dict(labels)
    _default_labels(obj, spec)


def default_stateful_set(obj: Json) -> None:
    spec = _spec_of(obj)
    fill(spec, {"replicas": 1, "podManagementPolicy": "OrderedReady", "revisionHistoryLimit": 10})
    if not (spec.get("updateStrategy") or {}).get("type"):
        strategy = _strategy(spec, "updateStrategy")
        if strategy.get("rollingUpdate") is None:
            strategy["rollingUpdate"] = {}
    strategy = spec["updateStrategy"]
    if strategy["type"] == "RollingUpdate" and strategy.get("rollingUpdate") is not None:
        fill(strategy["rollingUpdate"], {"partition": 0})
    kept = spec["persistentVolumeClaimRetentionPolicy"] = (
        spec.get("persistentVolumeClaimRetentionPolicy") or {}
    )
    fill(kept, {"whenDeleted": "Retain", "whenScaled": "Retain"})
    for claim in spec.get("volumeClaimTemplates") or ():
        fill(claim, {"apiVersion": "v1", "kind": "PersistentVolumeClaim"})
        default_claim(claim)
        claim["status"] = claim.get("status") or {"phase": "Pending"}


def default_daemon_set(obj: Json) -> None:
    metadata = obj["metadata"]
    metadata["annotations"] = {_TEMPLATE_GENERATION: "0", **(metadata.get("annotations") or {})}
    spec = _spec_of(obj)
    strategy = _strategy(spec, "updateStrategy")
    if strategy["type"] == "RollingUpdate":
        fill(strategy.setdefault("rollingUpdate", {}), {"maxUnavailable": 1, "maxSurge": 0})
    fill(spec, {"revisionHistoryLimit": 10})


def default_job(obj: Json) -> None:
    _default_job_spec(_spec_of(obj))


def default_cron_job(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    template = spec.get("jobTemplate")
    if template is not None:
        jobs = template.setdefault("spec", {})
        if jobs.get("template") is not None:
            default_pod_spec(jobs["template"].setdefault("spec", {}))


def _default_job_spec(spec: Json) -> None:
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6 if spec.get("backoffLimitPerIndex") is None else _MAX_INT32)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            pattern.setdefault("status", "True")
    spec.setdefault(
        "podReplacementPolicy", "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
    )


def _template_labels(spec: Json) -> Any:
    return ((spec.get("template") or {}).get("metadata") or {}).get("labels")


def _default_labels(obj: Json, spec: Json) -> None:
    """Objects that make pods have their pods' labels unless they have labels of their own."""
    labels = _template_labels(spec)
    if labels and not obj["metadata"].get("labels"):
        obj["metadata"]["labels"] = dict(labels)


DEFAULTS: Final[Mapping[Resource, Callable[[Json], None]]] = {
    catalogue.REPLICATION_CONTROLLERS: default_replication_controller,
    catalogue.REPLICA_SETS: default_replica_set,
    catalogue.DEPLOYMENTS: default_deployment,
    catalogue.STATEFUL_SETS: default_stateful_set,
    catalogue.DAEMON_SETS: default_daemon_set,
    catalogue.JOBS: default_job,
    catalogue.CRON_JOBS: default_cron_job,
}
