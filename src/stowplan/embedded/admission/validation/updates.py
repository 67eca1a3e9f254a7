"""What must not change once an object exists."""

from typing import Any, Final

from stowplan.api.fielderrors import FieldError, forbidden, invalid
from stowplan.api.requests import Json

_IMMUTABLE: Final = "field is immutable"
_POD_RULE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to "
    "existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
    "previously negative)"
)
_STATEFUL_RULE: Final = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
_STATEFUL_FREE: Final = frozenset(
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
_CLAIM_RULE: Final = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for "
    "bound claims"
)
_POD_FREE: Final = frozenset(("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds"))


def pod_changes(old: Json, new: Json) -> list[FieldError]:
    before, after = old.get("spec") or {}, new.get("spec") or {}
    errors = _toleration_changes(before, after)
    errors += _gate_changes(before, after)
    free = set(_POD_FREE) | {"schedulingGates"}
    if before.get("schedulingGates"):
        free |= {"nodeSelector", "affinity"}
    if _pod_core(before, free) != _pod_core(after, free):
        errors.append(forbidden("spec", _POD_RULE))
    return errors


def _pod_core(spec: Json, free: set[str]) -> Json:
    """What of a pod's spec has to stay."""
    core = {
        field: value for field, value in spec.items() if field not in free and value not in (None, [], {})
    }
    for kind in ("containers", "initContainers"):
        if core.get(kind):
            core[kind] = [{key: value for key, value in c.items() if key != "image"} for c in core[kind]]
    return core


def _toleration_changes(before: Json, after: Json) -> list[FieldError]:
    kept = after.get("tolerations") or []
    for toleration in before.get("tolerations") or ():
        same = {key: value for key, value in toleration.items() if key != "tolerationSeconds"}
        if not any({k: v for k, v in other.items() if k != "tolerationSeconds"} == same for other in kept):
            return [
                forbidden(
                    "spec.tolerations", "existing toleration can not be modified except its tolerationSeconds"
                )
            ]
    return []


def _gate_changes(before: Json, after: Json) -> list[FieldError]:
    known = {gate.get("name") for gate in before.get("schedulingGates") or ()}
    added = [
        gate.get("name", "") for gate in after.get("schedulingGates") or () if gate.get("name") not in known
    ]
    if not added:
        return []
    shown = ", ".join(f'"{name}"' for name in added)
    return [
        forbidden(
            "spec.schedulingGates", f"only deletion is allowed, but found new scheduling gates [{shown}]"
        )
    ]


def selector_changes(old: Json, new: Json) -> list[FieldError]:
    return _unchanged(old, new, "spec", "selector")


def stateful_set_changes(old: Json, new: Json) -> list[FieldError]:
    before, after = old.get("spec") or {}, new.get("spec") or {}
    if _rest(before, _STATEFUL_FREE) != _rest(after, _STATEFUL_FREE):
        return [forbidden("spec", _STATEFUL_RULE)]
    return []


def job_changes(old: Json, new: Json) -> list[FieldError]:
    errors = _unchanged(old, new, "spec", "selector")
    suspended = (old.get("spec") or {}).get("suspend") and not (old.get("status") or {}).get("startTime")
    if not suspended:
        errors += _unchanged(old, new, "spec", "template")
    errors += _unchanged(old, new, "spec", "completionMode")
    if (old.get("spec") or {}).get("completionMode") != "Indexed":
        errors += _unchanged(old, new, "spec", "completions")
    return errors


def service_changes(old: Json, new: Json) -> list[FieldError]:
    before, after = old.get("spec") or {}, new.get("spec") or {}
    if "ExternalName" in (before.get("type"), after.get("type")):
        return []
    address = before.get("clusterIP")
    if address and after.get("clusterIP") != address:
        return [invalid("spec.clusterIPs[0]", [after.get("clusterIP")], "may not change once set")]
    return []


def claim_changes(old: Json, new: Json) -> list[FieldError]:
    before, after = old.get("spec") or {}, new.get("spec") or {}
    free = {"resources", "volumeAttributesClassName"}
    if not before.get("volumeName"):
        free.add("volumeName")
    if "storageClassName" not in before:
        free.add("storageClassName")
    if _rest(before, free) != _rest(after, free):
        return [forbidden("spec", _CLAIM_RULE)]
    bound = (old.get("status") or {}).get("phase") == "Bound"
    if not bound and before.get("resources") != after.get("resources"):
        return [forbidden("spec", _CLAIM_RULE)]
    return []


def storage_class_changes(old: Json, new: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in ("parameters", "provisioner"):
        if (old.get(field) or None) != (new.get(field) or None):
            errors.append(forbidden(field, f"updates to {field} are forbidden."))
    for field in ("reclaimPolicy", "volumeBindingMode"):
        if old.get(field) != new.get(field):
            errors.append(invalid(field, new.get(field), _IMMUTABLE))
    return errors


def priority_class_changes(old: Json, new: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    if old.get("value", 0) != new.get("value", 0):
        errors.append(forbidden("value", "may not be changed in an update."))
    if old.get("preemptionPolicy") != new.get("preemptionPolicy"):
        errors.append(invalid("preemptionPolicy", new.get("preemptionPolicy"), _IMMUTABLE))
    return errors


def config_changes(old: Json, new: Json) -> list[FieldError]:
    """A ConfigMap or Secret that says it is immutable."""
    errors: list[FieldError] = []
    if "type" in old and old.get("type") != new.get("type"):
        errors.append(invalid("type", new.get("type"), _IMMUTABLE))
    if not old.get("immutable"):
        return errors
    text = "field is immutable when `immutable` is set"
    if not new.get("immutable"):
        errors.append(forbidden("immutable", text))
    for field in ("data", "binaryData"):
        if (old.get(field) or {}) != (new.get(field) or {}):
            errors.append(forbidden(field, text))
    return errors


def _unchanged(old: Json, new: Json, section: str, field: str) -> list[FieldError]:
    before: Any = (old.get(section) or {}).get(field)
    after: Any = (new.get(section) or {}).get(field)
    return [] if before == after else [invalid(f"{section}.{field}", after, _IMMUTABLE)]


def _rest(spec: Json, free: set[str] | frozenset[str]) -> Json:
    return {
        field: value for field, value in spec.items() if field not in free and value not in (None, [], {})
    }
