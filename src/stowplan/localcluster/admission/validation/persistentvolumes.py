"""Validation of PersistentVolumes and their claims."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.fielderrors import FieldError, Kind, forbidden, invalid, not_supported, required
from stowplan.api.names import subdomain_problems
from stowplan.api.quantity import Quantity
from stowplan.api.requests import Json
from stowplan.localcluster.admission.validation.meta import (
    IMMUTABLE,
    amount_errors,
    fields_except,
    read_quantity,
    selector_errors,
)
from stowplan.localcluster.admission.validation.pods.placement import node_selector_errors
from stowplan.localcluster.admission.validation.pods.volumes import source_errors
from stowplan.localcluster.schema.internal import difference

Errors = Iterator[FieldError]
_ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
RECLAIM_POLICIES: Final = ("Delete", "Recycle", "Retain")
_VOLUME_MODES: Final = ("Block", "Filesystem")
_POSITIVE: Final = "must be greater than zero"
_OTHER_FIELDS: Final = frozenset(
    (
        "capacity",
        "accessModes",
        "claimRef",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "mountOptions",
        "volumeMode",
        "nodeAffinity",
        "volumeAttributesClassName",
    )
)
"""Fields of a volume's spec that are not its source."""


def volume_errors(obj: Json) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors = [] if spec.get("accessModes") else [required("spec.accessModes")]
    errors += _mode_errors(spec, "spec.accessModes")
    errors += _capacity_errors(spec)
    policy = spec.get("persistentVolumeReclaimPolicy")
    if policy not in RECLAIM_POLICIES:
        errors.append(not_supported("spec.persistentVolumeReclaimPolicy", policy or "", RECLAIM_POLICIES))
    affinity = spec.get("nodeAffinity")
    if affinity is not None:
        if affinity.get("required") is None:
            errors.append(required("spec.nodeAffinity.required", "must specify required node constraints"))
        else:
            errors += node_selector_errors(affinity["required"], "spec.nodeAffinity.required")
    errors += source_errors(spec, "spec", persistent=True)
    if spec.get("local") is not None and affinity is None:
        errors.append(required("spec.nodeAffinity", "Local volume requires node affinity"))
    path = (spec.get("hostPath") or {}).get("path") or ""
    if path and not path.strip("/") and policy == "Recycle":
        text = "may not be 'recycle' for a hostPath mount of '/'"
        errors.append(forbidden("spec.persistentVolumeReclaimPolicy", text))
    errors += _class_errors(spec)
    return errors


def _mode_errors(spec: Json, path: str) -> Errors:
    modes = spec.get("accessModes") or ()
    for mode in modes:
        if mode not in _ACCESS_MODES:
            yield not_supported(path, mode, _ACCESS_MODES)
    known = {mode for mode in modes if mode in _ACCESS_MODES}
    if "ReadWriteOncePod" in known and len(known) > 1:
        yield forbidden(path, "may not use ReadWriteOncePod with other access modes")


def _capacity_errors(spec: Json) -> Errors:
    capacity = spec.get("capacity") or {}
    if not capacity:
        yield required("spec.capacity")
    if [*capacity] != ["storage"]:
        yield FieldError(
            "spec.capacity", Kind.NOT_SUPPORTED, spec.get("capacity"), 'supported values: "storage"'
        )
    for name, raw in capacity.items():
        path, amount = f"spec.capacity[{name}]", read_quantity(raw)
        if amount is not None and amount.sign < 0:
            yield invalid(path, amount.value(), "must be a valid resource quantity")
        if amount is not None and amount.sign <= 0:
            yield invalid(path, str(amount), _POSITIVE)


def _class_errors(spec: Json) -> Errors:
    name = spec.get("storageClassName")
    if name:
        yield from (invalid("spec.storageClassName", name, text) for text in subdomain_problems(name))
    mode = spec.get("volumeMode")
    if mode is not None and mode not in _VOLUME_MODES:
        yield not_supported("spec.volumeMode", mode, _VOLUME_MODES)


def volume_update_errors(old: Json, new: Json) -> list[FieldError]:
    before, after = old.get("spec") or {}, new.get("spec") or {}
    errors: list[FieldError] = []
    source, wanted = fields_except(before, _OTHER_FIELDS), fields_except(after, _OTHER_FIELDS)
    if source != wanted:
        shown = difference("PersistentVolumeSource", source, wanted)
        text = f"spec.persistentvolumesource is immutable after creation\n{shown}"
        errors.append(forbidden("spec.persistentvolumesource", text))
    if before.get("volumeMode") != after.get("volumeMode"):
        errors.append(invalid("volumeMode", after.get("volumeMode"), IMMUTABLE))
    if before.get("nodeAffinity") is not None and before["nodeAffinity"] != after.get("nodeAffinity"):
        errors.append(invalid("nodeAffinity", after.get("nodeAffinity"), IMMUTABLE))
    return errors


def claim_errors(obj: Json) -> list[FieldError]:
    return [*claim_spec_errors(obj.get("spec") or {}, "spec")]


def claim_spec_errors(spec: Json, path: str) -> Errors:
    """Errors of a claim, also of one in a template."""
    if not spec.get("accessModes"):
        yield required(f"{path}.accessModes", "at least 1 access mode is required")
    yield from selector_errors(spec.get("selector"), f"{path}.selector")
    yield from _mode_errors(spec, f"{path}.accessModes")
    here, storage = f"{path}.resources[storage]", _storage(spec)
    if storage is None:
        yield required(here)
    else:
        amount = read_quantity(storage)
        if amount is not None and amount.sign <= 0:
            yield invalid(here, str(amount), _POSITIVE)
        else:
            yield from amount_errors("storage", storage, here)
    yield from _claim_class_errors(spec, path)
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    for field, given in (("dataSource", source), ("dataSourceRef", reference)):
        if given is not None:
            yield from _reference_errors(given, f"{path}.{field}")
    if source is not None and reference is not None:
        if reference.get("namespace"):
            text = "may not be specified when dataSourceRef.namespace is specified"
            yield invalid(path, f"{path}.dataSource", text)
        elif {**reference, "namespace": None} != {**source, "namespace": None}:
            yield invalid(path, f"{path}.dataSource", "must match dataSourceRef")


def _claim_class_errors(spec: Json, path: str) -> Errors:
    for field in ("storageClassName", "volumeAttributesClassName"):
        name = spec.get(field)
        if name:
            yield from (invalid(f"{path}.{field}", name, text) for text in subdomain_problems(name))
    mode = spec.get("volumeMode")
    if mode is not None and mode not in _VOLUME_MODES:
        yield not_supported(f"{path}.volumeMode", mode, _VOLUME_MODES)


def _reference_errors(reference: Json, path: str) -> Errors:
    for field in ("name", "kind"):
        if not reference.get(field):
            yield required(f"{path}.{field}")
    if not reference.get("apiGroup") and reference.get("kind") != "PersistentVolumeClaim":
        yield invalid(
            path,
            reference.get("kind") or "",
            "must be 'PersistentVolumeClaim' when referencing the default apiGroup",
        )


def _storage(spec: Json) -> Any:
    return ((spec.get("resources") or {}).get("requests") or {}).get("storage")


_CLAIM_RULE: Final = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for "
    "bound claims"
)


def claim_update_errors(old: Json, new: Json) -> list[FieldError]:
    """A claim may grow, and get a volume and a class if it had none; nothing else of it changes."""
    before, after = old.get("spec") or {}, new.get("spec") or {}
    bound = (old.get("status") or {}).get("phase") == "Bound"
    errors: list[FieldError] = []
    kept, changed = _fixed(before, before, bound=bound), _fixed(before, after, bound=bound)
    if kept != changed:
        shown = difference("PersistentVolumeClaimSpec", kept, changed)
        errors.append(forbidden("spec", f"{_CLAIM_RULE}\n{shown}"))
    wanted, asked = _amount(_storage(after)), _amount(_storage(before))
    given = _amount(((old.get("status") or {}).get("capacity") or {}).get("storage"))
    if wanted < asked and wanted <= given:
        text = "field can not be less than status.capacity"
        errors.append(forbidden("spec.resources.requests.storage", text))
    if before.get("volumeMode") != after.get("volumeMode"):
        errors.append(invalid("volumeMode", after.get("volumeMode"), IMMUTABLE))
    return errors


def _fixed(before: Json, spec: Json, *, bound: bool) -> Json:
    """A claim's spec in which what may change is as it was."""
    kept = fields_except(spec, frozenset())
    free = ["volumeAttributesClassName"] if bound else []
    free += [field for field in ("volumeName", "storageClassName") if not before.get(field)]
    for field in free:
        kept.pop(field, None)
        if before.get(field):
            kept[field] = before[field]
    if bound and kept.get("resources"):
        requests = {**(kept["resources"].get("requests") or {}), "storage": _storage(before)}
        kept["resources"] = {**kept["resources"], "requests": requests}
    return kept


def _amount(raw: Any) -> Quantity:
    return read_quantity("0" if raw is None else raw) or Quantity(0)


ALWAYS: Final[Mapping[Resource, Callable[[Json], list[FieldError]]]] = {
    catalogue.PERSISTENT_VOLUMES: volume_errors,
    catalogue.PERSISTENT_VOLUME_CLAIMS: claim_errors,
}
ON_UPDATE: Final[Mapping[Resource, Callable[[Json, Json], list[FieldError]]]] = {
    catalogue.PERSISTENT_VOLUMES: volume_update_errors,
    catalogue.PERSISTENT_VOLUME_CLAIMS: claim_update_errors,
}
