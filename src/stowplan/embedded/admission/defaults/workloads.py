"""Defaults of the groups apps and batch, and of ReplicationControllers."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json
from stowplan.embedded.admission.defaults.core import default_claim, default_pod_spec


def _spec_of(obj: Json) -> Json:
    spec: Json = obj.setdefault("spec", {})
    template = spec.get("template")
    if template is not None:
        default_pod_spec(template.setdefault("spec", {}))
    return spec


def default_deployment(obj: Json) -> None:
    spec = _spec_of(obj)
    spec.setdefault("replicas", 1)
    strategy = spec.setdefault("strategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)


def default_replica_set(obj: Json) -> None:
    spec = _spec_of(obj)
    spec.setdefault("replicas", 1)
    _default_labels(obj, spec)


def default_replication_controller(obj: Json) -> None:
    spec = _spec_of(obj)
    spec.setdefault("replicas", 1)
    labels = _template_labels(spec)
    if labels and not spec.get("selector"):
        spec["selector"] = dict(labels)
    _default_labels(obj, spec)


def default_stateful_set(obj: Json) -> None:
    spec = _spec_of(obj)
    spec.setdefault("replicas", 1)
    spec.setdefault("podManagementPolicy", "OrderedReady")
    strategy = spec.setdefault("updateStrategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)
    spec.setdefault("revisionHistoryLimit", 10)
    kept = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    kept.setdefault("whenDeleted", "Retain")
    kept.setdefault("whenScaled", "Retain")
    for claim in spec.get("volumeClaimTemplates") or ():
        claim.setdefault("apiVersion", "v1")
        claim.setdefault("kind", "PersistentVolumeClaim")
        default_claim(claim)
        claim.setdefault("status", {"phase": "Pending"})


def default_daemon_set(obj: Json) -> None:
    spec = _spec_of(obj)
    strategy = spec.setdefault("updateStrategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", 10)


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
        pods = template.setdefault("spec", {}).get("template")
        if pods is not None:
            default_pod_spec(pods.setdefault("spec", {}))


def _default_job_spec(spec: Json) -> None:
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
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
