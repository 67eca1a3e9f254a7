"""Extenders as Policies (and component configurations up to v1alpha2) write them.

The differences to today: the case of field names does not matter, and the timeout is a number of nanoseconds.
"""

from typing import Any, Final

from stowplan.config.fields import Fields
from stowplan.gocompat.durations import Duration
from stowplan.gocompat.jsontext import ObjectNode, Tree

_FIELDS: Final = (
    "urlPrefix",
    "filterVerb",
    "preemptVerb",
    "prioritizeVerb",
    "weight",
    "bindVerb",
    "enableHTTPS",
    "nodeCacheCapable",
    "ignorable",
)
_TLS_FIELDS: Final = (
    "insecure",
    "serverName",
    "certFile",
    "keyFile",
    "caFile",
    "certData",
    "keyData",
    "caData",
)
_RESOURCE_FIELDS: Final = ("name", "ignoredByScheduler")


def read_extender(tree: Tree, path: str) -> dict[str, Any]:
    """An extender as today's configuration has it; its values are checked there. Raises ConfigError."""
    fields = Fields(tree, path, any_case=True)
    extender = _plain(fields, _FIELDS)
    timeout = fields.number("httpTimeout")
    if timeout is not None:
        extender["httpTimeout"] = str(Duration(timeout))
    tls = fields.take("tlsConfig")
    if tls is not None:
        extender["tlsConfig"] = _object(tls, f"{path}.tlsConfig", _TLS_FIELDS, "a TLS configuration")
    resources = fields.elements("managedResources")
    if resources is not None:
        extender["managedResources"] = [
            _object(one, where, _RESOURCE_FIELDS, "a managed resource") for where, one in resources
        ]
    fields.done("an extender")
    return extender


def _object(tree: Tree, path: str, names: tuple[str, ...], what: str) -> dict[str, Any]:
    fields = Fields(ObjectNode() if tree is None else tree, path, any_case=True)
    found = _plain(fields, names)
    fields.done(what)
    return found


def _plain(fields: Fields, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: fields.data(name) for name in names if fields.has(name)}
