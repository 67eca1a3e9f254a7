"""Plugins about networking: DefaultIngressClass."""

from typing import Final

from stowplan.api.catalogue import INGRESS_CLASSES
from stowplan.api.requests import Json
from stowplan.localcluster.store.registry import Lookup

_DEFAULT_CLASS: Final = "ingressclass.kubernetes.io/is-default-class"
_CLASS_ANNOTATION: Final = "kubernetes.io/ingress.class"


def default_ingress_class(lookup: Lookup, ingress: Json) -> None:
    """An Ingress that names no class gets the default one; of several the youngest."""
    annotations = ingress["metadata"].get("annotations") or {}
    if "ingressClassName" in (ingress.get("spec") or {}) or _CLASS_ANNOTATION in annotations:
        return
    defaults = [one for one in lookup.all(INGRESS_CLASSES) if _is_default(one)]
    if defaults:
        defaults.sort(key=lambda one: str(one["metadata"]["name"]))
        youngest = max(defaults, key=lambda one: str(one["metadata"]["creationTimestamp"]))
        ingress.setdefault("spec", {})["ingressClassName"] = youngest["metadata"]["name"]


def _is_default(ingress_class: Json) -> bool:
    return (ingress_class["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS) == "true"
