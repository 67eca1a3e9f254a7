"""Migration: a configuration of any version, a Policy or an algorithm provider as v1 text."""

from dataclasses import dataclass
from typing import Any, Final

from stowplan.api.gates.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.config.legacy import PolicyFetch, to_v1_document
from stowplan.config.legacy.load import load_document
from stowplan.config.legacy.profiles import LATEST_POLICY_RELEASE, LegacyOptions, provider_document
from stowplan.config.load import ConfigError, LegacySettings, load
from stowplan.gocompat.yamltext import to_yaml

ALREADY_V1: Final = "it is a configuration of today; there is nothing to migrate"


@dataclass(frozen=True, slots=True)
class Migrated:
    """The text of a v1 configuration, and a line for everything that has no exact equivalent."""

    text: str
    notes: tuple[str, ...]


def migrate(
    data: bytes,
    gates: FeatureGates = DEFAULT_GATES,
    *,
    fetch: PolicyFetch | None = None,
    release: str = LATEST_POLICY_RELEASE,
) -> Migrated:
    """A document of any version as a v1 configuration; v1 stays as it is. Raises ConfigError."""
    found = to_v1_document(data, fetch=fetch, release=release)
    if found is None:
        load(data, gates)
        return Migrated(data.decode("utf-8"), (ALREADY_V1,))
    return _migrated(*found, gates)


def migrate_provider(name: str, gates: FeatureGates = DEFAULT_GATES) -> Migrated:
    """An algorithm provider as a v1 configuration. Raises ConfigError."""
    return _migrated(*provider_document(name, LegacyOptions()), gates)


def _migrated(document: dict[str, Any], legacy: LegacySettings, gates: FeatureGates) -> Migrated:
    load_document(document, legacy, gates)
    text = to_yaml(document)
    try:
        load(text, gates)
    except ConfigError as error:
        raise ConfigError(error.stage, f"the result would be refused: {error.message}") from None
    return Migrated(text, (*legacy.notes, *_lost(legacy)))


def _lost(legacy: LegacySettings) -> list[str]:
    """Settings that a v1 configuration cannot express."""
    lost = []
    if legacy.all_reasons:
        lost.append(
            "alwaysCheckAllPredicates: has no equivalent: of a node only the first reason is told; the same "
            "nodes are rejected"
        )
    if legacy.lock:
        lost.append(
            f"leaderElection.resourceLock: {legacy.lock} is now leases; as long as there are instances of "
            f"earlier releases, start with --leader-elect-resource-lock={legacy.lock}"
        )
    return lost
