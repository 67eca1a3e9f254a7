"""Turning a configuration of any version, or an algorithm provider, into the text of one of today."""

from dataclasses import dataclass
from typing import Any, Final

from stowplan.config.errors import ConfigError
from stowplan.config.heritage import Heritage
from stowplan.config.load import load
from stowplan.config.old import Fetch, document_of
from stowplan.config.policy.choice import LATEST, Around
from stowplan.config.policy.configs import loaded_from, provider_document
from stowplan.framework.gates import DEFAULT_GATES, FeatureGates
from stowplan.gocompat.yamltext import to_yaml

_TODAY: Final = "it is a configuration of today; there is nothing to migrate"


@dataclass(frozen=True, slots=True)
class Migrated:
    """The text of a configuration of today, and a line for everything that has no exact equivalent."""

    text: str
    notes: tuple[str, ...]


def migrate(
    data: bytes, gates: FeatureGates = DEFAULT_GATES, *, fetch: Fetch | None = None, release: str = LATEST
) -> Migrated:
    """A document of any version as one of today. Raises ConfigError.

    One of today stays as it is.
    """
    found = document_of(data, fetch=fetch, release=release)
    if found is None:
        load(data, gates)
        return Migrated(data.decode("utf-8"), (_TODAY,))
    return _migrated(*found, gates)


def migrate_provider(name: str, gates: FeatureGates = DEFAULT_GATES) -> Migrated:
    """An algorithm provider as a configuration of today. Raises ConfigError."""
    return _migrated(*provider_document(name, Around()), gates)


def _migrated(document: dict[str, Any], heritage: Heritage, gates: FeatureGates) -> Migrated:
    loaded_from(document, heritage, gates)
    text = to_yaml(document)
    try:
        load(text, gates)
    except ConfigError as error:
        raise ConfigError(error.stage, f"the result would be refused: {error.message}") from None
    return Migrated(text, (*heritage.notes, *_lost(heritage)))


def _lost(heritage: Heritage) -> list[str]:
    """What today's configuration cannot say at all."""
    lost = []
    if heritage.all_reasons:
        lost.append(
            "alwaysCheckAllPredicates: has no equivalent: of a node only the first reason is told; the same "
            "nodes are rejected"
        )
    if heritage.lock:
        lost.append(
            f"leaderElection.resourceLock: {heritage.lock} is now leases; as long as there are instances of "
            f"earlier releases, start with --leader-elect-resource-lock={heritage.lock}"
        )
    return lost
