"""The lines of a scheduler in the recorded scenarios: the same messages, levels and keys.

Recorded was the whole process; here the scheduler runs alone, so what other parts of a process say is listed.
"""

import json
from collections import Counter
from functools import cache
from typing import Any

import pytest

from observed.files import recorded
from runtime.logs.reading import Line
from runtime.logs.scenarios import log_of, said
from stowplan.runtime.logs import LogSettings

ELECTION = "said by leader election"
SERVING = "said by the secure port"
PROCESS = "said by the process around the scheduler"
NO_BROADCASTER = "our event recorder is drained at the end, so no event comes too late to be recorded"
NO_CONTROLLERS = "there is no controller per file or ConfigMap that could start or stop"
NOT_GO = "there are no settings of Go's runtime"
REFLECTORS = "our reflectors say what they cannot do, not what they do; whether a cache is full is told once"

DIFFERENT = {
    "Attempting to acquire leader lease...": ELECTION,
    "Successfully acquired lease": ELECTION,
    "Serving securely on <addr>": SERVING,
    "Stopped listening on <addr>": SERVING,
    "Generated self-signed cert in-memory": SERVING,
    "Loaded serving cert": SERVING,
    "Loaded client CA": SERVING,
    "[graceful-termination] secure server has stopped listening": SERVING,
    "[graceful-termination] secure server is exiting": SERVING,
    "Loaded a new request header values for RequestHeaderAuthRequestController": SERVING,
    "The manifest file is empty, ignoring.": PROCESS,
    "Starting Kubernetes Scheduler": PROCESS,
    "Requested to terminate, exiting": PROCESS,
    'FLAG: --<name>="<value>"': PROCESS,
    "Using component config": PROCESS,
    "Golang settings": NOT_GO,
    "Waiting for caches to sync": NO_CONTROLLERS,
    "Caches are synced": NO_CONTROLLERS,
    "Starting controller": NO_CONTROLLERS,
    "Shutting down controller": NO_CONTROLLERS,
    "Starting DynamicServingCertificateController": NO_CONTROLLERS,
    "Shutting down DynamicServingCertificateController": NO_CONTROLLERS,
    "Starting RequestHeaderAuthRequestController": NO_CONTROLLERS,
    "Shutting down RequestHeaderAuthRequestController": NO_CONTROLLERS,
    "Unable to record event (will not retry!)": NO_BROADCASTER,
    "Listing and watching": REFLECTORS,
    "Exiting watch because received the bookmark that marks the end of initial events stream": REFLECTORS,
}
"""Recorded lines that the scheduler itself does not say, and why."""

COUNTED_OTHERWISE = {
    "Caches populated": "three more caches belonged to the secure port",
    "Starting reflector": "as above",
    "Stopping reflector": "as above",
    "Update event for scheduled pod": "pods were changed by others, and not as often",
}

FULL = ("pod", "conditionType", "conditionStatus", "conditionReason", "nominatedNodeName", "nominatingMode")
VARIANTS = {"Updating pod condition and nominated node name": (FULL, FULL[:4])}
"""Lines that have some of their keys only sometimes; recorded is one form."""

LEVELS = (0, 2, 3, 4)


@cache
def own(level: int) -> list[Line]:
    return said(level)


def shapes(level: int) -> dict[str, Any]:
    """Recorded lines at a verbosity, by message, without those that the scheduler does not log."""
    return {
        shape["message"]: shape
        for shape in recorded("logs/shapes")
        if f"v{level}" in shape["count"] and shape["message"] not in DIFFERENT
    }


@pytest.mark.parametrize("level", LEVELS)
def test_the_same_messages_are_shown(level: int) -> None:
    assert {line.message for line in own(level)} == set(shapes(level))


@pytest.mark.parametrize("level", LEVELS)
def test_messages_have_the_same_severity_and_keys(level: int) -> None:
    for line in own(level):
        shape = shapes(level)[str(line.message)]
        assert line.severity == shape["severity"]
        keys = tuple(key for key in shape["keys"] if key != "logger" or level >= 4)
        mine = tuple("plugins" if key == "unschedulable plugins" else key for key in line.keys)
        allowed = VARIANTS.get(str(line.message), (keys,))
        assert tuple(sorted(mine)) in [tuple(sorted(one)) for one in allowed], line


@pytest.mark.parametrize("level", [2, 4])
def test_messages_come_as_often(level: int) -> None:
    """At level 3 a pod was deleted before its second try."""
    counts = Counter(str(line.message) for line in own(level))
    expected = {message: shape["count"][f"v{level}"] for message, shape in shapes(level).items()}
    for message in COUNTED_OTHERWISE:
        counts.pop(message, None)
        expected.pop(message, None)
    assert counts == expected


def test_levels_are_the_recorded_ones() -> None:
    levels = recorded("logs/levels")
    written = log_of(LogSettings(format="json", verbosity=4)).splitlines()
    mine = {(line["msg"], line.get("v")) for line in map(json.loads, written)}
    assert mine <= levels.items()
    assert {message for message, _ in mine} == set(shapes(4))


def test_every_difference_is_about_a_line_that_was_recorded() -> None:
    known = {shape["message"] for shape in recorded("logs/shapes")}
    assert {*DIFFERENT, *COUNTED_OTHERWISE} <= known


def test_lines_name_our_own_files() -> None:
    files = {line.message: line.file for line in own(4)}
    assert files["Successfully bound pod to node"] == "binding_cycle.py"
    assert files["Attempting to schedule pod"] == "scheduling_cycle.py"
    assert files["Attempting to bind pod to node"] == "defaultbinder.py"


def test_values_are_as_recorded() -> None:
    lines = [line.text for line in own(4)]
    assert '"Added node to NodeTree" node="node-a1" zone=":\\x00:z1"' in lines
    assert (
        '"Successfully bound pod to node" pod="obs-c/waiter" node="node-c2" evaluatedNodes=2 feasibleNodes=1'
        in lines
    )
    assert (
        '"Pod moved to an internal scheduling queue" pod="obs-b/big" event="ScheduleAttemptFailure" '
        'queue="Unschedulable" schedulingCycle=2 hint=0 '
        'unschedulable plugins={"NodeResourcesFit":{},"TaintToleration":{}}' in lines
    )
    assert (
        '"Pod moved to an internal scheduling queue" pod="obs-b/nonodes" event="ScheduleAttemptFailure" '
        'queue="Backoff" schedulingCycle=4 hint=1 unschedulable plugins={}' in lines
    )
    assert (
        '"Start the preemption asynchronously" preemptor="obs-d/high" node="node-d1" numVictims=2 '
        "numVictimsToDelete=2" in lines
    )
    assert (
        '"node had untolerated taints" logger="FilterWithNominatedPods.Filter.TaintToleration" '
        'pod="obs-b/big" node="node-b2" '
        'untoleratedTaint={"key":"example.com/mine","value":"0","effect":"NoSchedule"}' in lines
    )


def test_the_plugins_of_a_profile_are_told_in_the_recorded_form() -> None:
    [line] = [line for line in own(2) if line.message == "the scheduler starts to work with those plugins"]
    [(_, value)] = line.values
    example = next(shape["example"] for shape in recorded("logs/shapes") if shape["message"] == line.message)
    beginning = example.partition("Plugins=")[2]
    assert value.startswith(beginning[: beginning.index('"PreFilter"')])
