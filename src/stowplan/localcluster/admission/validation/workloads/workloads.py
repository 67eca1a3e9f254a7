"""Validation of the group apps, and of ReplicationControllers.

Selectors have to match their templates, and templates have to be valid pods.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.fielderrors import FieldError, Kind, forbidden, invalid, not_supported, required
from stowplan.api.labels import SelectorError, compile_selector
from stowplan.api.meta import LabelSelector
from stowplan.api.names import dns_label_problems
from stowplan.api.requests import Json
from stowplan.gocompat.jsontext import as_json
from stowplan.gocompat.numbers import parse_count
from stowplan.localcluster.admission.validation.meta import (
    IMMUTABLE,
    NOT_NEGATIVE,
    fields_except,
    immutable_errors,
    label_errors,
    selector_errors,
)
from stowplan.localcluster.admission.validation.persistentvolumes import claim_spec_errors
from stowplan.localcluster.admission.validation.pods.pods import pod_spec_errors

Errors = Iterator[FieldError]
_MISMATCH: Final = "`selector` does not match template `labels`"
_NO_DEADLINE: Final = "activeDeadlineSeconds in {} is not Supported"


def deployment_errors(obj: Json) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors = [*count_errors(spec, "replicas"), *_selector_errors(spec, "deployment")]
    errors += _template_errors(spec, "ReplicaSet")
    errors += _deployment_strategy_errors(spec.get("strategy") or {}, "spec.strategy")
    errors += [*count_errors(spec, "minReadySeconds"), *count_errors(spec, "revisionHistoryLimit")]
    errors += count_errors(spec, "progressDeadlineSeconds")
    deadline, ready = spec.get("progressDeadlineSeconds"), spec.get("minReadySeconds") or 0
    if deadline is not None and deadline <= ready:
        text = "must be greater than minReadySeconds"
        errors.append(invalid("spec.progressDeadlineSeconds", deadline, text))
    return errors


def replica_set_errors(obj: Json) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors = [*count_errors(spec, "replicas"), *count_errors(spec, "minReadySeconds")]
    errors += _selector_errors(spec, "deployment")
    errors += _template_errors(spec, "ReplicaSet")
    return errors


def replication_controller_errors(obj: Json) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors = [*count_errors(spec, "minReadySeconds")]
    selector, labels = spec.get("selector") or {}, labels_of_template(spec)
    if not selector:
        errors.append(required("spec.selector"))
    errors += count_errors(spec, "replicas")
    if spec.get("template") is None:
        errors.append(required("spec.template"))
        return errors
    if selector and not selector.items() <= labels.items():
        errors.append(invalid("spec.template.metadata.labels", labels, _MISMATCH))
    errors += template_spec_errors(spec["template"], "spec.template")
    errors += _always_errors(spec, "ReplicationController")
    return errors


def stateful_set_errors(obj: Json) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors: list[FieldError] = []
    policy = spec.get("podManagementPolicy")
    if policy not in ("OrderedReady", "Parallel"):
        text = "must be 'OrderedReady' or 'Parallel'"
        errors.append(invalid("spec.podManagementPolicy", policy or "", text))
    errors += _stateful_strategy_errors(spec.get("updateStrategy") or {}, "spec.updateStrategy")
    kept = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for field in ("whenDeleted", "whenScaled"):
        given = kept.get(field, "Retain")
        if given not in ("Retain", "Delete"):
            path = f"spec.persistentVolumeClaimRetentionPolicy.{field}"
            errors.append(not_supported(path, given, ("Retain", "Delete")))
    for i, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        errors += claim_spec_errors(claim.get("spec") or {}, f"spec.volumeClaimTemplates[{i}].spec")
    errors += [*count_errors(spec, "replicas"), *count_errors(spec, "minReadySeconds")]
    errors += count_errors(spec.get("ordinals") or {}, "start", "spec.ordinals")
    name = spec.get("serviceName")
    if name:
        errors += [invalid("spec.serviceName", name, problem) for problem in dns_label_problems(name)]
    errors += _selector_errors(spec, "statefulset")
    errors += _template_errors(spec, "StatefulSet")
    return errors


def daemon_set_errors(obj: Json) -> list[FieldError]:
    spec = obj.get("spec") or {}
    selector, labels = spec.get("selector"), labels_of_template(spec)
    errors = [*selector_errors(selector, "spec.selector")]
    if selector is None:
        errors.append(required("spec.selector"))
    if not matches(selector, labels):
        errors.append(invalid("spec.template.metadata.labels", labels, _MISMATCH))
    if selector is not None and _is_empty(selector):
        errors.append(invalid("spec.selector", selector, "empty selector is invalid for daemonset"))
    errors += template_spec_errors(spec.get("template"), "spec.template")
    errors += _always_errors(spec, "DaemonSet")
    errors += count_errors(spec, "minReadySeconds")
    errors += _daemon_strategy_errors(spec.get("updateStrategy") or {}, "spec.updateStrategy")
    errors += count_errors(spec, "revisionHistoryLimit")
    return errors


def count_errors(spec: Json, field: str, path: str = "spec") -> Errors:
    """A number that is not negative."""
    number = spec.get(field)
    if number is not None and number < 0:
        yield invalid(f"{path}.{field}", number, NOT_NEGATIVE)


def _selector_errors(spec: Json, kind: str) -> Errors:
    selector = spec.get("selector")
    if selector is None:
        yield required("spec.selector")
        return
    yield from selector_errors(selector, "spec.selector")
    if _is_empty(selector):
        yield invalid("spec.selector", selector, f"empty selector is invalid for {kind}")


def _is_empty(selector: Json) -> bool:
    return not selector.get("matchLabels") and not selector.get("matchExpressions")


def matches(selector: Json | None, labels: Mapping[str, str]) -> bool:
    """True if labels are selected: by no selector none are, by an empty or an invalid one all."""
    if selector is None:
        return False
    try:
        compiled = compile_selector(msgspec.convert(selector, LabelSelector))
    except (SelectorError, msgspec.ValidationError):
        return True
    return compiled.matches(labels)


def labels_of_template(spec: Json) -> Any:
    return ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}


def _template_errors(spec: Json, kind: str) -> Errors:
    labels, selector = labels_of_template(spec), spec.get("selector")
    if not matches(selector, labels):
        yield invalid("spec.template.metadata.labels", labels or None, _MISMATCH)
    claims = [
        (claim.get("metadata") or {}).get("name", "") for claim in spec.get("volumeClaimTemplates") or ()
    ]
    yield from template_spec_errors(spec.get("template"), "spec.template", claims)
    yield from _always_errors(spec, kind)


def template_spec_errors(template: Any, path: str, claims: Sequence[str] = ()) -> Errors:
    """Errors of a template of pods. `claims`: volumes that its pods get in addition."""
    metadata = (template or {}).get("metadata") or {}
    yield from label_errors(metadata.get("labels") or {}, f"{path}.labels")
    spec = (template or {}).get("spec") or {}
    yield from pod_spec_errors(spec, f"{path}.spec", claims)
    if spec.get("ephemeralContainers"):
        yield forbidden(
            f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template"
        )


def _always_errors(spec: Json, kind: str) -> Errors:
    """Pods that run until they are deleted."""
    pods = (spec.get("template") or {}).get("spec") or {}
    policy = pods.get("restartPolicy", "Always")
    if policy != "Always":
        yield not_supported("spec.template.spec.restartPolicy", policy, ("Always",))
    if pods.get("activeDeadlineSeconds") is not None:
        yield forbidden("spec.template.spec.activeDeadlineSeconds", _NO_DEADLINE.format(kind))


_PERCENT: Final = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)


def share_errors(value: Any, path: str) -> Errors:
    """A number or a percentage, neither negative."""
    if isinstance(value, str):
        if not _is_percent(value):
            yield invalid(path, value, _PERCENT)
    elif value < 0:
        yield invalid(path, value, NOT_NEGATIVE)


def _is_percent(value: Any) -> bool:
    return isinstance(value, str) and value.endswith("%") and value[:-1].isascii() and value[:-1].isdecimal()


def _share(value: Any) -> int:
    """The number, of a percentage the number before its sign."""
    if isinstance(value, str):
        return parse_count(value.removesuffix("%")) or 0 if _is_percent(value) else 0
    return int(value)


def _at_most_all(value: Any, path: str) -> Errors:
    if _is_percent(value) and _share(value) > 100:
        yield invalid(path, value, "must not be greater than 100%")


def _deployment_strategy_errors(strategy: Json, path: str) -> Errors:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "Recreate":
        if rolling is not None:
            text = "may not be specified when strategy `type` is 'Recreate'"
            yield forbidden(f"{path}.rollingUpdate", text)
    elif kind == "RollingUpdate":
        rolling = rolling or {}
        down, up = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
        here = f"{path}.rollingUpdate"
        yield from share_errors(down, f"{here}.maxUnavailable")
        yield from share_errors(up, f"{here}.maxSurge")
        if not _share(down) and not _share(up):
            yield invalid(f"{here}.maxUnavailable", down, "may not be 0 when `maxSurge` is 0")
        yield from _at_most_all(down, f"{here}.maxUnavailable")
    else:
        yield _unsupported_strategy(path, strategy, ("Recreate", "RollingUpdate"))


def _unsupported_strategy(path: str, strategy: Json, choices: Sequence[str]) -> FieldError:
    """The whole strategy is shown, as Go shows it."""
    shown = {"Type": strategy.get("type") or "", "RollingUpdate": strategy.get("rollingUpdate")}
    listed = ", ".join(as_json(choice) for choice in choices)
    return FieldError(path, Kind.NOT_SUPPORTED, shown, f"supported values: {listed}")


def _stateful_strategy_errors(strategy: Json, path: str) -> Errors:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "OnDelete":
        if rolling is not None:
            shown = {
                "Partition": rolling.get("partition", 0),
                "MaxUnavailable": rolling.get("maxUnavailable"),
            }
            yield invalid(f"{path}.rollingUpdate", shown, "only allowed for updateStrategy 'RollingUpdate'")
    elif kind == "RollingUpdate":
        here = f"{path}.rollingUpdate"
        yield from count_errors(rolling or {}, "partition", here)
        down = (rolling or {}).get("maxUnavailable")
        if down is not None:
            yield from share_errors(down, f"{here}.maxUnavailable")
            if not _share(down):
                yield invalid(f"{here}.maxUnavailable", down, "cannot be 0")
            yield from _at_most_all(down, f"{here}.maxUnavailable")
    else:
        shown = {"Type": kind or "", "RollingUpdate": rolling}
        yield invalid(path, shown, "must be 'RollingUpdate' or 'OnDelete'")


def _daemon_strategy_errors(strategy: Json, path: str) -> Errors:
    kind = strategy.get("type")
    if kind == "OnDelete":
        return
    if kind != "RollingUpdate":
        yield _unsupported_strategy(path, strategy, ("RollingUpdate", "OnDelete"))
        return
    rolling, here = strategy.get("rollingUpdate") or {}, f"{path}.rollingUpdate"
    down, up = rolling.get("maxUnavailable", 1), rolling.get("maxSurge", 0)
    yield from share_errors(down, f"{here}.maxUnavailable")
    yield from share_errors(up, f"{here}.maxSurge")
    yield from _at_most_all(down, f"{here}.maxUnavailable")
    yield from _at_most_all(up, f"{here}.maxSurge")
    if _share(down) and _share(up):
        yield invalid(f"{here}.maxSurge", up, "may not be set when maxUnavailable is non-zero")
    elif not _share(down) and not _share(up):
        yield required(f"{here}.maxUnavailable", "cannot be 0 when maxSurge is 0")


_STATEFUL_RULE: Final = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
_STATEFUL_MUTABLE: Final = frozenset(
    (
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    )
)


def selector_update_errors(old: Json, new: Json) -> list[FieldError]:
    return immutable_errors(old, new, "spec", "selector")


def stateful_set_update_errors(old: Json, new: Json) -> list[FieldError]:
    before, after = old.get("spec") or {}, new.get("spec") or {}
    if fields_except(before, _STATEFUL_MUTABLE) != fields_except(after, _STATEFUL_MUTABLE):
        return [forbidden("spec", _STATEFUL_RULE)]
    return []


def controller_revision_update_errors(old: Json, new: Json) -> list[FieldError]:
    return [] if old.get("data") == new.get("data") else [invalid("data", new.get("data"), IMMUTABLE)]


_COUNTS: Final[Mapping[Resource, Sequence[str]]] = {
    catalogue.DEPLOYMENTS: ("updatedReplicas", "readyReplicas", "availableReplicas"),
    catalogue.REPLICA_SETS: ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
    catalogue.REPLICATION_CONTROLLERS: ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
    catalogue.STATEFUL_SETS: ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"),
}
"""Numbers of replicas in the status of a kind, none of which may exceed the total."""


def _replica_status_errors(resource: Resource) -> Callable[[Json, Json], list[FieldError]]:
    counted = _COUNTS[resource]
    stateful = resource == catalogue.STATEFUL_SETS
    ready_name = "status.readyReplicas" if stateful else "readyReplicas"

    def check(old: Json, new: Json) -> list[FieldError]:
        status = new.get("status") or {}
        errors: list[FieldError] = []
        for field in ("replicas", *counted):
            errors += count_errors(status, field, "status")
        total, ready = status.get("replicas") or 0, status.get("readyReplicas") or 0
        for field in counted:
            number = status.get(field) or 0
            if number > total:
                text = "cannot be greater than status.replicas"
                errors.append(invalid(f"status.{field}", number, text))
        available = status.get("availableReplicas") or 0
        if available > ready:
            errors.append(
                invalid("status.availableReplicas", available, f"cannot be greater than {ready_name}")
            )
        return errors

    return check


ALWAYS: Final[Mapping[Resource, Callable[[Json], list[FieldError]]]] = {
    catalogue.DEPLOYMENTS: deployment_errors,
    catalogue.REPLICA_SETS: replica_set_errors,
    catalogue.STATEFUL_SETS: stateful_set_errors,
    catalogue.DAEMON_SETS: daemon_set_errors,
    catalogue.REPLICATION_CONTROLLERS: replication_controller_errors,
}
ON_UPDATE: Final[Mapping[Resource, Callable[[Json, Json], list[FieldError]]]] = {
    catalogue.DEPLOYMENTS: selector_update_errors,
    catalogue.REPLICA_SETS: selector_update_errors,
    catalogue.DAEMON_SETS: selector_update_errors,
    catalogue.STATEFUL_SETS: stateful_set_update_errors,
    catalogue.CONTROLLER_REVISIONS: controller_revision_update_errors,
}
ON_STATUS: Final[Mapping[Resource, Callable[[Json, Json], list[FieldError]]]] = {
    resource: _replica_status_errors(resource) for resource in _COUNTS
}
