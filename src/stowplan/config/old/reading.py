"""A configuration of any kind and version: the entrance."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from stowplan.config.errors import ConfigError
from stowplan.config.fields import Fields, parse_document, peek
from stowplan.config.heritage import Heritage
from stowplan.config.load import Change, LoadedConfig, as_it_is, load
from stowplan.config.old.configuration import OldConfiguration
from stowplan.config.old.source import PolicyReference
from stowplan.config.old.versions import VERSIONS
from stowplan.config.policy.choice import LATEST, Around
from stowplan.config.policy.configs import loaded_from, policy_document, read_bytes
from stowplan.config.types import KIND
from stowplan.framework.gates import DEFAULT_GATES, FeatureGates

Fetch = Callable[[PolicyReference], str]
"""Gets the text of a Policy that is in a ConfigMap."""


def read_any(
    text: str | bytes,
    gates: FeatureGates = DEFAULT_GATES,
    change: Change = as_it_is,
    *,
    fetch: Fetch | None = None,
    release: str = LATEST,
) -> LoadedConfig:
    """The configuration that a text comes to: of today, of an earlier version, or a Policy.

    `fetch` gets Policies from ConfigMaps; without it they are refused. `release` is the one whose meaning of
    names counts in a Policy. Raises ConfigError.
    """
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    found = document_of(data, fetch=fetch, release=release)
    if found is None:
        return load(data, gates, change)
    document, heritage = found
    return loaded_from(document, heritage, gates, change)


def read_any_file(
    path: str | Path,
    gates: FeatureGates = DEFAULT_GATES,
    change: Change = as_it_is,
    *,
    fetch: Fetch | None = None,
    release: str = LATEST,
) -> LoadedConfig:
    """The configuration that a file comes to. Raises ConfigError."""
    return read_any(read_bytes(path), gates, change, fetch=fetch, release=release)


def document_of(
    data: bytes, *, fetch: Fetch | None = None, release: str = LATEST
) -> tuple[dict[str, Any], Heritage] | None:
    """A text of an earlier version or a Policy as a document of today; None if it is neither.

    What cannot even be parsed is left to the reader of today's configurations.
    """
    members = peek(data)
    kind, version = members.get("kind"), members.get("apiVersion")
    if kind == "Policy":
        return policy_document(data, Around(), release)
    if kind != KIND or not isinstance(version, str) or version not in VERSIONS:
        return None
    fields = Fields(parse_document(data))
    for name in ("kind", "apiVersion"):
        fields.take(name)

    def policy_text(reference: PolicyReference) -> bytes:
        if reference.path:
            return read_bytes(reference.path)
        if fetch is None:
            raise ConfigError("read", f"the Policy is in {reference}: it can be read only in a cluster")
        return fetch(reference).encode("utf-8", "surrogateescape")

    return OldConfiguration(fields, version, policy_text).convert()
