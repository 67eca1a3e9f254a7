"""Visible changes when a configuration moves from one release to another: one line each."""

from collections.abc import Iterator
from typing import Any

from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.releases import Choice, Gate, Release, differences
from stowplan.config.defaults import complete
from stowplan.config.dump import dump
from stowplan.config.load import decode_document
from stowplan.config.types import SchedulerConfig
from stowplan.gocompat.jsontext import as_json
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


def _changed(was: Choice, now: Choice) -> str:
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
            yield f"feature gate {name}: is gone, a scheduler that is told of it does not start"
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
