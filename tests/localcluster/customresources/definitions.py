"""Definitions of custom resources for tests, in the forms that real operators use."""

from typing import Any

from stowplan.api.requests import Json

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def version(name: str = "v1", schema: Json | None = None, **more: Any) -> Json:
    """A version that is served and stored."""
    spec = {"type": "object", "properties": {"spec": schema or {"type": "object"}}}
    return {
        "name": name,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": spec},
        **more,
    }


def definition(plural: str, group: str = "example.com", **spec: Any) -> Json:
    """A definition of `plural` in a group; its kind is the plural without its end, capitalized."""
    kind = spec.pop("kind", plural[:-1].capitalize())
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [version()],
            **spec,
        },
    }


def custom(kind: str, name: str, api_version: str = "example.com/v1", **more: Any) -> Json:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **more}


def objects(plural: str, group: str = "example.com", version: str = "v1", namespace: str = "default") -> str:
    """Where objects are found."""
    within = f"/namespaces/{namespace}" if namespace else ""
    return f"/apis/{group}/{version}{within}/{plural}"
