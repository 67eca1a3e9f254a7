"""Replays recorded configuration documents: accepted or refused, at what stage, with what text or result."""

from pathlib import Path
from typing import Any

from stowplan.api.gates.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.api.releases import Release
from stowplan.config import BuiltConfig, ConfigError, build, load
from stowplan.config.dump import dump
from stowplan.config.types import Extender
from stowplan.lab.verify.recording import Line, gates_of, read_lines
from stowplan.lab.verify.report import FactDifference, VerifyReport
from stowplan.scheduler.framework.interface import ExtensionPoint
from stowplan.scheduler.framework.profile import ProfileSpec

VERDICT = "verdict"


def replay(path: str | Path, report: VerifyReport) -> None:
    """Replay all documents of a recording into a report. Raises RecordingError."""
    for line in read_lines(Path(path)):
        replay_line(line, report)


def replay_line(line: Line, report: VerifyReport) -> None:
    """Replay the document of a line into a report. Raises RecordingError.

    Every document has a verdict: accepted, or the stage and the exact text of the refusal. An accepted one
    also has the completed configuration, the plugins per extension point, and the order of the extenders.
    """
    case = line.case()
    with line.case_errors():
        where = f"{case['name']} ({case['tag']})"
        expected, actual = case["result"], outcome(case["document"], gates_of(case, line.release))
        _compare(report, line.family, VERDICT, where, _verdict(expected), _verdict(actual))
        if expected["ok"] and actual["ok"]:
            for part in ("config", "plugins", "extenders"):
                _compare(report, line.family, part, where, expected[part], actual[part])


def outcome(document: str, gates: FeatureGates = DEFAULT_GATES) -> dict[str, Any]:
    """Result of a document, in the form in which it is recorded."""
    try:
        built = build(load(document, gates))
    except ConfigError as error:
        return {"ok": False, "stage": error.stage, "error": error.message}
    return {"ok": True, **_described(built, gates.release)}


def _described(built: BuiltConfig, release: Release) -> dict[str, Any]:
    return {
        "config": dump(built.config),
        "plugins": {profile.scheduler_name: _plugins(profile, release) for profile in built.profiles},
        "extenders": [_extender(extender) for extender in built.extenders],
    }


def _plugins(profile: ProfileSpec, release: Release) -> dict[str, list[Any]]:
    return {
        point.value: [
            {"name": use.name, "weight": use.weight} if point.is_weighted else use.name
            for use in profile.plugins[point]
        ]
        for point in map(ExtensionPoint, release.points)
    }


def _extender(extender: Extender) -> dict[str, Any]:
    return {
        "name": extender.url_prefix,
        "filter": bool(extender.filter_verb),
        "prioritizer": bool(extender.prioritize_verb),
        "preemption": bool(extender.preempt_verb),
        "binder": bool(extender.bind_verb),
        "ignorable": extender.ignorable,
    }


def _verdict(result: dict[str, Any]) -> dict[str, Any]:
    return {name: result[name] for name in ("ok", "stage", "error") if name in result}


def _compare(report: VerifyReport, family: str, subject: str, where: str, expected: Any, actual: Any) -> None:
    report.add(family, subject, expected == actual, FactDifference(where, expected, actual))
