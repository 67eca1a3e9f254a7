"""Configurations of other versions: written as v1, and visible changes between releases, one line each."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from stowplan.api.gates.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.api.releases import BehaviourChoice, Gate, Release, differences
from stowplan.config.defaults import complete
from stowplan.config.dump import dump
from stowplan.config.legacy import PolicyFetch, to_v1_document
from stowplan.config.legacy.load import load_document
from stowplan.config.legacy.profiles import LATEST_POLICY_RELEASE, LegacyOptions, provider_document
from stowplan.config.load import ConfigError, LegacySettings, decode_document, load
from stowplan.config.types import SchedulerConfig
from stowplan.gocompat.jsontext import as_json
from stowplan.gocompat.yamltext import to_yaml
from stowplan.scheduler.plugins.registry import catalog

_PLUGINS = {"devices": "DynamicResources", "preempting": "DefaultPreemption"}
"""Areas of behaviour that concern one plugin alone."""


def upgrade_notes(document: bytes, before: FeatureGates, after: FeatureGates) -> Iterator[str]:
    """Changes for a v1 document between two releases. Gates are the settings of the user in each."""
    written = decode_document(document, after.release)
    old, new = complete(written, before), complete(written, after)
    in_use = _plugins_of(new)
    yield from _gate_notes(before, after)
    yield from _order_notes(in_use, before.release, after.release)
    yield from _argument_notes(old, new)
    yield from _api_notes(before.release, after.release)
    for was, now in differences(before.behaviour, after.behaviour):
        plugin = _PLUGINS.get(now.area)
        if plugin is None or plugin in in_use:
            yield f"{now.area}: {_changed(was, now)}"


def _changed(was: BehaviourChoice, now: BehaviourChoice) -> str:
    """A choice that changed: what is so now, what is no longer so, or both values."""
    if isinstance(now.value, bool):
        return now.sentence if now.value else f"no longer: {now.sentence}"
    return f"{now.sentence} ({was.shown} → {now.shown})"


def settings_of(gates: FeatureGates, release: Release) -> FeatureGates:
    """The settings of a user in another release; what cannot be set there is left out."""
    return FeatureGates(
        {
            name: on
            for name, on in gates.changed().items()
            if (gate := release.gates.get(name)) is not None and not (gate.locked and gate.default != on)
        },
        release,
    )


def _plugins_of(config: SchedulerConfig) -> set[str]:
    return {
        plugin["name"]
        for profile in dump(config)["profiles"]
        for section in profile["plugins"].values()
        for plugin in section.get("enabled", ())
    }


def _gate_notes(before: FeatureGates, after: FeatureGates) -> Iterator[str]:
    old, new = before.release.gates, after.release.gates
    for name, on in sorted(before.changed().items()):
        gate = new.get(name)
        if gate is None:
            yield f"feature gate {name}: is removed; a scheduler given it does not start"
        elif gate.locked and gate.default != on:
            locked = str(gate.default).lower()
            yield f"feature gate {name}: is locked to {locked}, a scheduler that sets it does not start"
    for name, gate in sorted(new.items()):
        if gate.has_effect and name in old and old[name].default != gate.default:
            yield f"feature gate {name}: is {_state(gate)} by default ({gate.stage}), was {_state(old[name])}"


def _state(gate: Gate) -> str:
    return "on" if gate.default else "off"


def _order_notes(in_use: set[str], before: Release, after: Release) -> Iterator[str]:
    old, new = catalog(before), catalog(after)
    for name, entry in new.items():
        if name in in_use and name in old and (added := entry.points - old[name].points):
            points = ", ".join(sorted(point.value for point in added))
            yield f"plugin {name}: also runs at {points}"
    common = [name for name in old if name in new]
    moved = [name for name in new if name in old]
    if common != moved:
        later, earlier = next(pair for pair in zip(common, moved, strict=True) if pair[0] != pair[1])
        where = f"{earlier} runs before {later}"
        yield f"order of default plugins: {where}, so another plugin may be the first to reject a node"


def _argument_notes(old: SchedulerConfig, new: SchedulerConfig) -> Iterator[str]:
    """Arguments with another default."""
    for before, after in zip(_arguments(old), _arguments(new), strict=True):
        for plugin in sorted(before.keys() & after.keys()):
            for field in sorted(after[plugin]):
                if after[plugin][field] != before[plugin].get(field):
                    yield f"{plugin}Args.{field}: the default is {as_json(after[plugin][field])}"


def _arguments(config: SchedulerConfig) -> Iterator[dict[str, dict[str, Any]]]:
    for profile in dump(config)["profiles"]:
        yield {entry["name"]: entry["args"] for entry in profile["pluginConfig"] if entry["args"]}


def _api_notes(before: Release, after: Release) -> Iterator[str]:
    for resource, version in after.apis.items():
        if before.apis.get(resource) != version:
            yield f"{resource}: are read as {version}, which the API server has to serve"


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
            "alwaysCheckAllPredicates: has no equivalent: one reason a node is reported; the same "
            "nodes are rejected"
        )
    if legacy.lock:
        lost.append(
            f"leaderElection.resourceLock: {legacy.lock} is now leases; as long as there are instances of "
            f"earlier releases, start with --leader-elect-resource-lock={legacy.lock}"
        )
    return lost
