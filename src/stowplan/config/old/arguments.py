"""Plugin arguments of earlier versions as arguments of today."""

from collections.abc import Mapping
from typing import Any

from stowplan.config.fields import Fields, refuse
from stowplan.config.old.plugins import LEAST_ALLOCATED
from stowplan.config.old.versions import VERSIONS, Version
from stowplan.config.types import GROUP
from stowplan.gocompat.jsontext import ObjectNode, Tree, to_python
from stowplan.gocompat.quoting import quote

Arguments = Mapping[str, dict[str, Any]]
"""By today's name of a plugin."""


def read_arguments(entries: list[Fields] | None, plugins: frozenset[str], version: Version) -> Arguments:
    """The arguments that a profile gives, and those that its plugins had then if it gave none.

    Raises ConfigError.
    """
    found: dict[str, dict[str, Any]] = {}
    seen: set[str] = set()
    for entry in entries or ():
        name = entry.text("name")
        if not name:
            refuse(entry.at("name"), "missing, expected the name of a plugin")
        if name in seen:
            refuse(entry.at("name"), f"{name} is there already")
        if name in version.removed:
            refuse(entry.at("name"), f"{name} was removed in this version")
        seen.add(name)
        tree = entry.take("args")
        entry.done("a plugin's arguments")
        if name in version.args:
            args = _known(Fields(ObjectNode() if tree is None else tree, entry.at("args")), name, version)
        else:
            args = _own(tree, entry.at("args"))
        plugin, args = _of_today(name, args, version)
        found.setdefault(plugin, {}).update(args)
    if version.release == "1.18" and "PodTopologySpread" in plugins:
        found.setdefault("PodTopologySpread", {"defaultingType": "List"})
    return found


def _own(tree: Tree, path: str) -> dict[str, Any]:
    """Arguments of a plugin of somebody's own, which only it can judge."""
    if tree is not None and not isinstance(tree, ObjectNode):
        refuse(path, "expected an object")
    return to_python(tree) or {}


def _known(fields: Fields, plugin: str, version: Version) -> dict[str, Any]:
    kind, api_version = fields.text("kind"), fields.text("apiVersion")
    expected = next(name for name, one in VERSIONS.items() if one is version)
    if kind not in ("", f"{plugin}Args"):
        refuse(fields.at("kind"), f"expected {plugin}Args, got {quote(kind)}")
    if api_version not in ("", expected):
        refuse(fields.at("apiVersion"), f"expected {expected}, got {quote(api_version)}")
    args = {name: fields.data(name) for name in sorted(version.args[plugin]) if fields.has(name)}
    fields.done(f"{plugin}Args in {expected.removeprefix(f'{GROUP}/')}")
    return args


def _of_today(name: str, args: dict[str, Any], version: Version) -> tuple[str, dict[str, Any]]:
    """The plugin that the arguments are for, and what they are called there."""
    if name == LEAST_ALLOCATED:
        return "NodeResourcesFit", {"scoringStrategy": {"type": "LeastAllocated", **args}}
    if name == "PodTopologySpread" and not args.get("defaultingType"):
        args = {**args, "defaultingType": _defaulting(args, version)}
    return version.renamed.get(name, name), args


def _defaulting(args: Mapping[str, Any], version: Version) -> str:
    """Built-in constraints came with v1beta1, and only from v1beta2 on they were not a matter of the list."""
    if version.release == "1.18" or (version.release == "1.21" and args.get("defaultConstraints")):
        return "List"
    return "System"
