"""Validation of updates of pods: almost nothing of a pod's spec changes once it is made."""

from collections.abc import Iterator
from typing import Final

from stowplan.api.fielderrors import FieldError, forbidden, invalid, required
from stowplan.api.requests import Json
from stowplan.localcluster.admission.validation.pods.placement import tolerations_errors
from stowplan.localcluster.quota.qos import qos_class
from stowplan.localcluster.schema.internal import difference

_POD_RULE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to "
    "existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
    "previously negative)"
)
_MUTABLE: Final = frozenset(("activeDeadlineSeconds", "tolerations", "schedulingGates"))
_MAX_INT32: Final = (1 << 31) - 1


def pod_update_errors(old: Json, new: Json) -> list[FieldError]:
    before, after = old.get("spec") or {}, new.get("spec") or {}
    for kind in ("containers", "initContainers"):
        given = after.get(kind) or ()
        if len(before.get(kind) or ()) != len(given):
            return [forbidden(f"spec.{kind}", "pod updates may not add or remove containers")]
    errors = [*_deadline_errors(before, after)]
    if errors:
        return errors
    errors += _toleration_errors(before, after)
    errors += _gate_errors(before, after)
    if before == after:
        return errors
    errors += _gated_errors(before, after)
    kept, wanted = _munged(before, before), _munged(before, after)
    if kept != wanted:
        errors.append(forbidden("spec", f"{_POD_RULE}\n{difference('PodSpec', kept, wanted)}"))
    return errors


def _deadline_errors(before: Json, after: Json) -> Iterator[FieldError]:
    old, new, path = (
        before.get("activeDeadlineSeconds"),
        after.get("activeDeadlineSeconds"),
        "spec.activeDeadlineSeconds",
    )
    if new is None:
        if old is not None:
            yield invalid(path, None, "must not update from a positive integer to nil value")
    elif not 0 <= new <= _MAX_INT32:
        yield invalid(path, new, "must be between 0 and 2147483647, inclusive")
    elif old is not None and old < new:
        yield invalid(path, new, "must be less than or equal to previous value")


def _toleration_errors(before: Json, after: Json) -> list[FieldError]:
    kept = after.get("tolerations") or []
    bare = {_without_seconds(toleration) for toleration in kept}
    for toleration in before.get("tolerations") or ():
        if _without_seconds(toleration) not in bare:
            text = "existing toleration can not be modified except its tolerationSeconds"
            return [forbidden("spec.tolerations", text)]
    return [*tolerations_errors(kept, "spec.tolerations")] if kept != before.get("tolerations") else []


def _without_seconds(toleration: Json) -> frozenset[tuple[str, str]]:
    return frozenset((key, value) for key, value in toleration.items() if key != "tolerationSeconds")


def _gate_errors(before: Json, after: Json) -> Iterator[FieldError]:
    known = {gate.get("name") for gate in before.get("schedulingGates") or ()}
    for i, gate in enumerate(after.get("schedulingGates") or ()):
        name = gate.get("name", "")
        if name not in known:
            text = f"only deletion is allowed, but found new scheduling gate '{name}'"
            yield forbidden(f"spec.schedulingGates[{i}].name", text)


_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def _gated_errors(before: Json, after: Json) -> Iterator[FieldError]:
    """A pod that is not scheduled yet may say more precisely where it is to run."""
    if not before.get("schedulingGates"):
        return
    wanted, given = before.get("nodeSelector") or {}, after.get("nodeSelector") or {}
    if any(given.get(key) != value for key, value in wanted.items()):
        text = "only additions are allowed (no mutations or deletions)"
        yield invalid("spec.nodeSelector", given, text)
    path = "spec.affinity.nodeAffinity"
    old = ((before.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED)
    new = ((after.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED)
    if old is None or old == new:
        return
    if new is None:
        yield required(path, "must not be removed")
        return
    terms, others = old.get("nodeSelectorTerms") or (), new.get("nodeSelectorTerms") or ()
    if len(terms) != len(others):
        text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        yield invalid(f"{path}.{_REQUIRED}.nodeSelectorTerms", others, text)


def _munged(before: Json, spec: Json) -> Json:
    """A spec in which what may change is as it was."""
    core = {
        field: value for field, value in spec.items() if field not in _MUTABLE and value not in (None, [], {})
    }
    core |= {field: before[field] for field in _MUTABLE if before.get(field) not in (None, [], {})}
    for kind in ("containers", "initContainers"):
        if core.get(kind):
            pairs = zip(core[kind], before[kind], strict=True)
            core[kind] = [{**new, "image": old.get("image", "")} for new, old in pairs]
    if before.get("schedulingGates"):
        _keep_placement(before, core)
    grace = before.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0 and core.get("terminationGracePeriodSeconds") == 1:
        core["terminationGracePeriodSeconds"] = grace
    return core


def _keep_placement(before: Json, core: Json) -> None:
    """A gated pod may change its node selector and its node affinity."""
    core.pop("nodeSelector", None)
    if before.get("nodeSelector"):
        core["nodeSelector"] = before["nodeSelector"]
    old, new = before.get("affinity") or {}, core.pop("affinity", None) or {}
    affinity = {key: value for key, value in new.items() if key != "nodeAffinity"}
    if old.get("nodeAffinity"):
        affinity["nodeAffinity"] = old["nodeAffinity"]
    if affinity:
        core["affinity"] = affinity


def ephemeral_update_errors(old: Json, new: Json) -> list[FieldError]:
    """Ephemeral containers are added, and never changed or removed."""
    path = "spec.ephemeralContainers"
    given = {one.get("name"): one for one in (new.get("spec") or {}).get("ephemeralContainers") or ()}
    errors: list[FieldError] = []
    for container in (old.get("spec") or {}).get("ephemeralContainers") or ():
        name = container.get("name", "")
        if name not in given:
            text = f'existing ephemeral containers "{name}" may not be removed\n'
            errors.append(forbidden(path, text))
        elif given[name] != container:
            shown = difference("EphemeralContainer", container, given[name])
            text = f'existing ephemeral containers "{name}" may not be changed\n{shown}'
            errors.append(forbidden(path, text))
    return errors


def resize_errors(old: Json, new: Json) -> list[FieldError]:
    """A resize changes cpu and memory of containers, and never the quality of service."""
    before, after = old.get("spec") or {}, new.get("spec") or {}
    errors: list[FieldError] = []
    if (before.get("os") or {}).get("name") == "windows":
        return [forbidden("", "windows pods cannot be resized")]
    kind = (old.get("status") or {}).get("qosClass") or qos_class(before)
    if kind != qos_class(after):
        text = "Pod QOS Class may not change as a result of resizing"
        errors.append(invalid("spec", kind, text))
    for field in ("initContainers", "containers"):
        for i, (was, now) in enumerate(zip(before.get(field) or (), after.get(field) or (), strict=False)):
            if field == "initContainers" and was.get("restartPolicy") != "Always":
                if was != now:
                    text = "resources for non-sidecar init containers are immutable"
                    errors.append(forbidden("spec", text))
                continue
            errors += _container_resize_errors(was, now, f"spec.{field}[{i}].resources")
    return errors


def _container_resize_errors(was: Json, now: Json, path: str) -> Iterator[FieldError]:
    old, new = was.get("resources") or {}, now.get("resources") or {}
    for part in ("requests", "limits"):
        if set(old.get(part) or ()) - set(new.get(part) or ()):
            yield forbidden(f"{path}.{part}", f"resource {part} cannot be removed")
    others = [
        {name: amount for name, amount in (each.get(part) or {}).items() if name not in ("cpu", "memory")}
        for each in (old, new)
        for part in ("requests", "limits")
    ]
    if others[:2] != others[2:] or old.get("claims") != new.get("claims"):
        yield forbidden("spec", "only cpu and memory resources are mutable")
