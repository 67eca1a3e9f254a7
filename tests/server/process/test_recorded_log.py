"""Log of a real process from its first line to its last, compared with one of kube-scheduler."""

import json
import re
from typing import Any

import pytest

from observed.files import recorded
from runtime.logs.reading import Line, entries
from runtime.logs.test_recorded_lines import NO_BROADCASTER, NO_CONTROLLERS, NOT_GO
from server.process.process_lives import Lives

OTHERWISE = "the authorities in the ConfigMap are followed by one task"
NO_MANIFEST = "there is no manifest of metric labels, and nothing to say of it"
NOT_SAID = {
    "Golang settings": NOT_GO,
    "Waiting for caches to sync": NO_CONTROLLERS,
    "Caches are synced": NO_CONTROLLERS,
    "Starting controller": NO_CONTROLLERS,
    "Shutting down controller": NO_CONTROLLERS,
    "Starting DynamicServingCertificateController": NO_CONTROLLERS,
    "Shutting down DynamicServingCertificateController": NO_CONTROLLERS,
    "Starting RequestHeaderAuthRequestController": NO_CONTROLLERS,
    "Shutting down RequestHeaderAuthRequestController": NO_CONTROLLERS,
    "Loaded a new request header values for RequestHeaderAuthRequestController": OTHERWISE,
    "Unable to record event (will not retry!)": NO_BROADCASTER,
    "The manifest file is empty, ignoring.": NO_MANIFEST,
}
"""Recorded lines that are not said here, and why."""

ONLY_OURS = {
    "Event loop was held": "it depends on how busy the machine is",
    "New leader observed": "who leads is worth a line also to those who do not",
    "Unable to authenticate the request": "nobody with a bad token asked in the recorded lives",
}
OTHER_KEYS = {
    "Loaded client CA": ("index", "subject"),
    "Loaded serving cert": ("certDetail",),
}
"""Lines with keys of our own: certificates are named by their subjects."""

FLAG = 'FLAG: --<name>="<value>"'


def message_of(line: Line) -> str:
    if line.message is not None:
        return line.message
    text = re.sub(r"(listening|securely) on \S+", r"\1 on <addr>", line.text)
    return FLAG if text.startswith("FLAG: --") else text


@pytest.fixture(scope="module")
def said(lives: Lives) -> list[Line]:
    return entries("\n".join(lives.leader.log) + "\n")


def shapes() -> dict[str, dict[str, Any]]:
    return {one["message"]: one for one in recorded("logs/shapes") if "v2" in one["count"]}


def test_the_recorded_messages_are_said(said: list[Line]) -> None:
    expected = set(shapes()) - set(NOT_SAID)
    assert {message_of(line) for line in said} - set(ONLY_OURS) == expected


def test_messages_have_the_recorded_severity_and_keys(said: list[Line]) -> None:
    for line in said:
        shape = shapes().get(message_of(line))
        if shape is None:
            assert message_of(line) in ONLY_OURS
            continue
        keys = OTHER_KEYS.get(message_of(line), tuple(key for key in shape["keys"] if key != "logger"))
        assert (line.severity, sorted(line.keys)) == (shape["severity"], sorted(keys)), line
        assert (line.message is not None) == shape["structured"], line


def test_the_life_of_a_leader_is_told_in_order(said: list[Line]) -> None:
    told = [message_of(line) for line in said]
    chapters = [
        FLAG,
        "Using component config",
        "Starting Kubernetes Scheduler",
        "Generated self-signed cert in-memory",
        "Serving securely on <addr>",
        "Caches populated",
        "Attempting to acquire leader lease...",
        "Successfully acquired lease",
        "Successfully bound pod to node",
        "Scheduling queue is closed",
        "Stopped listening on <addr>",
        "[graceful-termination] secure server has stopped listening",
        "[graceful-termination] secure server is exiting",
        "Requested to terminate, exiting",
    ]
    assert sorted(chapters, key=told.index) == chapters
    assert told[-1] == chapters[-1]


def test_every_flag_and_every_cache_is_named(said: list[Line]) -> None:
    counts = {name: sum(message_of(line) == name for line in said) for name in (FLAG, "Caches populated")}
    assert counts[FLAG] >= shapes()[FLAG]["count"]["v2"]
    assert counts["Caches populated"] == shapes()["Caches populated"]["count"]["v2"] - 3


def test_a_log_in_json_has_one_object_a_line(lives: Lives) -> None:
    told = [json.loads(line) for line in lives.standby.log]
    assert all(
        isinstance(one["ts"], float) and re.fullmatch(r"\w+/\w+\.py:\d+", one["caller"]) for one in told
    )
    assert [one["msg"] for one in told if one["msg"].startswith(("Starting", "Attempting", "Requested"))] == [
        "Starting Kubernetes Scheduler",
        "Attempting to acquire leader lease...",
        "Requested to terminate, exiting",
    ]
    (lease,) = [one for one in told if one["msg"].startswith("Attempting")]
    assert {key: lease[key] for key in lease if key not in ("ts", "caller")} == {
        "msg": "Attempting to acquire leader lease...",
        "v": 0,
        "lock": "kube-system/kube-scheduler",
    }
