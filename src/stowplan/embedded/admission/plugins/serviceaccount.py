"""ServiceAccount: the account that a pod's processes use."""

from stowplan.api.requests import Json
from stowplan.embedded.store.registry import Lookup


def default_service_account(lookup: Lookup, pod: Json) -> None:
    spec = pod["spec"]
    name = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
    spec["serviceAccountName"] = spec["serviceAccount"] = name


def keep_service_account(lookup: Lookup, old: Json, new: Json) -> None:
    """What was resolved at creation and is left out of an update stays as it was."""
    before, spec = old.get("spec") or {}, new["spec"]
    for field in ("serviceAccountName", "serviceAccount", "nodeName"):
        if field in before:
            spec.setdefault(field, before[field])
