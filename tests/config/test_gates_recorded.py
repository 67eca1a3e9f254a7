"""Every feature gate of 1.36.4 and 1.37.0-rc.1: stage, default, lock, and what is said when it is set."""

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import stowplan
from releases import EACH
from stowplan.api.gates.feature_gates import EVERY_GATE, GATE_GROUPS, FeatureGates
from stowplan.api.gates.flag import parse_feature_gates
from stowplan.api.gates.history import UNUSED
from stowplan.api.releases import Release, histories, why_without_effect
from stowplan.config import ConfigError
from stowplan.config.emulation import emulated_release

RECORDED = Path(__file__).parents[1] / "golden-1.37" / "gates.json.gz"
COLUMNS = {"1.36": "1.36.4", "1.37": "1.37.0-rc.1"}


@cache
def recorded() -> dict[str, Any]:
    with gzip.open(RECORDED) as file:
        found: dict[str, Any] = json.load(file)
    return found


def of(release: Release) -> dict[str, dict[str, Any]]:
    """The gates of a release by name."""
    column = COLUMNS[release.name]
    gates = {name: gate[column] for name, gate in recorded()["gates"].items() if gate[column]}
    return {name: gate for name, gate in gates.items() if name not in GATE_GROUPS}


def said(name: str, value: str, release: Release) -> str:
    """The refusal of one setting; empty if it is accepted."""
    try:
        parse_feature_gates([f"{name}={value}"], release)
    except ConfigError as error:
        return error.message
    return ""


@pytest.mark.parametrize("release", EACH, ids=lambda one: one.name)
def test_every_gate_is_what_it_is_in_the_release(release: Release) -> None:
    gates = {
        name: {"stage": gate.stage.upper(), "default": gate.default, "lockToDefault": gate.locked}
        for name, gate in release.gates.items()
    }
    expected = {name: {key: gate[key] for key in gates[name]} for name, gate in of(release).items()}
    extra = {"KubeProxyIPVS"} if release.name == "1.36" else set()
    assert {name: gate for name, gate in gates.items() if name not in extra} == expected


@pytest.mark.parametrize("release", EACH, ids=lambda one: one.name)
def test_setting_a_gate_is_refused_in_the_same_words(release: Release) -> None:
    different = {}
    for name, gate in of(release).items():
        for value in ("true", "false"):
            expected = gate.get("refused", {}).get(value, "")
            if _sorted(said(name, value, release)) != _sorted(expected):
                different[name, value] = (said(name, value, release), expected)
    assert not different


def _sorted(message: str) -> list[str]:
    """The words of a message; lists in it have no order."""
    return sorted(message.replace("[", " ").replace("]", " ").replace(",", " ").split())


def test_gates_too_new_for_the_emulated_version_are_refused_in_the_same_words() -> None:
    emulating = emulated_release(["1.36"])
    for name, gate in recorded()["gates"].items():
        found = gate["1.37.0-rc.1@1.36"]
        if found is not None and found["stage"] is None:
            for value, expected in found["refused"].items():
                assert said(name, value, emulating) == expected


def test_removed_gates_are_unknown() -> None:
    newest = emulated_release(["1.37"])
    for name in recorded()["removed"]:
        assert said(name, "true", newest) == f"unrecognized feature gate: {name}"
        assert isinstance(FeatureGates(release=newest)[name], bool)


def test_gates_that_are_marked_as_read_are_read_and_no_others() -> None:
    """Setting a gate without effect causes a warning. One that is locked everywhere cannot be set."""
    sources = Path(stowplan.__file__).parent.rglob("*.py")
    text = "".join(one.read_text() for one in sources if one.parent.name != "gates")
    unread = {name for name in EVERY_GATE if f'"{name}"' not in text}
    marked = {name for name, history in histories().items() if history.has_effect}
    locked = {name for name in EVERY_GATE if all(_is_fixed(name, release) for release in EACH)}
    assert marked & unread - locked == set()
    assert UNUSED.keys() <= unread - marked
    assert all(why_without_effect(name) for name in EVERY_GATE - marked)


def _is_fixed(name: str, release: Release) -> bool:
    gate = release.gates.get(name)
    return gate is None or gate.locked
