"""The scale of an object that makes pods: how many there are and how many there shall be."""

from typing import Final

from stowplan.api.requests import Json

_KEPT: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(obj: Json) -> Json:
    """Current and desired replicas of an object, and the selector of its pods."""
    metadata, spec = obj["metadata"], obj.get("spec", {})
    shown: Json = {"replicas": (obj.get("status") or {}).get("replicas", 0)}
    selector = _selector_text(spec.get("selector") or {})
    if selector:
        shown["selector"] = selector
    wanted = spec.get("replicas", 1)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in _KEPT if key in metadata},
        "spec": {"replicas": wanted} if wanted else {},
        "status": shown,
    }


def _selector_text(selector: Json) -> str:
    labels = selector.get("matchLabels", {})
    if "matchLabels" not in selector and "matchExpressions" not in selector:
        labels = selector
    terms = [f"{key}={value}" for key, value in sorted(labels.items())]
    for term in selector.get("matchExpressions") or ():
        operator, key = term.get("operator", ""), term.get("key", "")
        values = ",".join(term.get("values") or ())
        written = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key}
        terms.append(written.get(operator, f"!{key}"))
    return ",".join(terms)
