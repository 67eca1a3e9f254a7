"""Replays recorded expressions that select devices: what they compile to, cost, and say about a device."""

from typing import Any, Final

from stowplan.api.cel import cost
from stowplan.api.cel.devices import (
    CelFeatures,
    SelectorError,
    compile_selector,
    device_of,
    features_of,
)
from stowplan.api.releases import Release
from stowplan.lab.verify.recording import Line
from stowplan.lab.verify.report import FactDifference, VerifyReport

_RESULT: Final = ("result", "error", "errorType")
_NEW: Final = "newExpressionCompileError"
_VARIES: Final = "varies"


def replay_line(line: Line, report: VerifyReport) -> None:
    """Replay an expression into a report. Raises RecordingError.

    The result with its error is one fact; its type, the two costs, and what the API server would say if the
    expression were new, are others.
    """
    case = line.case()
    with line.case_errors():
        expected, actual = case["expected"], outcome(case, line.release)
        parts = {"result": _RESULT, "outputType": ("outputType",), "estimatedMaxCost": ("estimatedMaxCost",)}
        if expected.get("actualCost") != _VARIES:
            parts["actualCost"] = ("actualCost",)
        parts[_NEW] = (_NEW,)
        where = f"line {line.number}, {case.get('name', '')}: {case['expression']}"
        for subject, names in parts.items():
            wanted = {name: expected[name] for name in names if name in expected}
            got = {name: actual[name] for name in names if name in actual}
            if wanted or got:
                report.add(line.family, subject, wanted == got, FactDifference(where, wanted, got))


def outcome(case: dict[str, Any], release: Release) -> dict[str, Any]:
    """Result of a case in a release, in the form in which it is recorded."""
    features = features_of(release.behaviour.devices)
    result, refusal = _evaluated(case, features), _new_refusal(case["expression"], features)
    told = result.get("error") if result["result"] == "compileError" else None
    if refusal is not None and refusal != told:
        result[_NEW] = refusal
    return result


def _evaluated(case: dict[str, Any], features: CelFeatures) -> dict[str, Any]:
    try:
        compiled = compile_selector(case["expression"], features)
    except SelectorError as error:
        return {"result": "compileError", "error": error.message, "errorType": error.kind}
    device = device_of(case["device"]["driver"], case["device"], list_attributes=features.list_attributes)
    match = compiled.match(device)
    most = "unbounded" if compiled.max_cost == cost.MAX else str(compiled.max_cost)
    result = {
        "result": str(match.matched).lower(),
        "outputType": compiled.output_type,
        "estimatedMaxCost": most,
    }
    if match.error is not None:
        result |= {"result": "runtimeError", "error": match.error}
    return result | ({} if match.cost is None else {"actualCost": match.cost})


def _new_refusal(expression: str, features: CelFeatures) -> str | None:
    """Why the API server would not take the expression if it were new: it has fewer functions then."""
    try:
        new = features._replace(includes=False, list_attributes=False, dyn_attributes=False)
        compile_selector(expression, new)
    except SelectorError as error:
        return error.message
    return None
