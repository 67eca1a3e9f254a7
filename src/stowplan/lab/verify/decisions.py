"""Recorded decisions: scenarios replayed and compared, fact by fact.

A fact is the statement of one decision on one subject: all results of `filter TaintToleration` for the nodes
it rejected, all scores of `score NodeResourcesFit`, the message. Facts that need a missing plugin are counted
separately, never as equal.
"""

from collections import defaultdict
from typing import Any

import msgspec

from stowplan.api.decode import DecodeError
from stowplan.api.releases import Release, UnknownReleaseError
from stowplan.config import ConfigError
from stowplan.lab.verify.recording import Line
from stowplan.lab.verify.replay import (
    RecordedPreemption,
    RecordedScenario,
    ReplayAttempt,
    Replayed,
    ScenarioError,
    ScenarioReplay,
    decode_scenario,
    recorded_gates,
)
from stowplan.lab.verify.report import FactDifference, VerifyReport
from stowplan.scheduler.framework.status import ProfileError

Facts = dict[str, Any]
MESSAGE = "fitError"
PREEMPTION = "preemption"
_NOT_IN_PREFILTER_RESULT = "(nodes not asked for)"


def replay_line(line: Line, report: VerifyReport) -> None:
    """Replay the scenario of a line into a report. Raises RecordingError."""
    try:
        replay(line.family, decode_scenario(line.data), report, line.replayed_as)
    except (ConfigError, ProfileError) as error:
        raise line.error(f"config: {error}") from None
    except (DecodeError, ScenarioError, UnknownReleaseError) as error:
        raise line.error(error) from None


def replay(
    family: str, scenario: RecordedScenario, report: VerifyReport, replayed_as: Release | None = None
) -> None:
    """Replay a scenario, as another release than the one it was recorded from if one is given."""
    under_way = ScenarioReplay(scenario, gates=None if replayed_as is None else recorded_gates(replayed_as))
    for position, expected in enumerate(scenario.expected):
        if expected.crash is not None:
            found = under_way.attempt(expected).attempt
            report.add(family, "decides where it crashed", found is not None and found.error is None)
            break
        where = f"{scenario.name}, {expected.pod}, attempt {expected.attempt}"
        compare(report, family, where, expected, under_way.attempt(expected))
        under_way.settle(expected, position)


def compare(
    report: VerifyReport, family: str, where: str, expected: ReplayAttempt, replayed: Replayed
) -> None:
    """Count every fact of an attempt as equal, different, or not built."""
    recorded = facts_of(expected)
    actual = replayed.attempt
    if actual is None:
        count_not_built(report, family, expected)
        return
    found = facts_of(actual)
    if expected.error is not None or actual.error is not None:
        recorded, found = ({"error": facts.get("error")} for facts in (recorded, found))
    if replayed.missing is not None:
        _leave_out_missing_plugin(report, family, recorded, found, replayed)
    for subject in dict.fromkeys((*recorded, *found)):
        one, other = recorded.get(subject), found.get(subject)
        difference = None if one == other else FactDifference(where, *_unequal(one, other))
        report.add(family, subject, difference is None, difference)


def count_not_built(report: VerifyReport, family: str, expected: ReplayAttempt) -> None:
    """Count every fact of an attempt as not built."""
    for subject in facts_of(expected):
        report.not_built(family, subject)


def facts_of(attempt: ReplayAttempt) -> Facts:
    """All facts of an attempt by subject."""
    facts: Facts = {"preFilter": msgspec.to_builtins(attempt.pre_filter)}
    if attempt.via_nominated_node:
        facts["viaNominatedNode"] = True
    facts |= _rejections(attempt)
    facts["feasible"] = attempt.feasible
    if attempt.skipped_score is not None:
        facts["preScore skipped"] = attempt.skipped_score
    for plugin, scores in (attempt.scores or {}).items():
        facts[f"score {plugin}"] = scores
    if attempt.total is not None:
        facts["total"] = attempt.total
    facts |= {"best": attempt.best, "assigned": attempt.assigned}
    if attempt.fit_error is not None:
        facts[MESSAGE] = attempt.fit_error
    if attempt.error is not None:
        facts["error"] = {"text": attempt.error, "nodes": attempt.error_nodes}
    if attempt.preemption is not None:
        facts |= _preemption_facts(attempt.preemption)
    return facts | _binding_facts(attempt)


def _rejections(attempt: ReplayAttempt) -> Facts:
    by_plugin: defaultdict[str, dict[str, list[str]]] = defaultdict(dict)
    for node, verdict in attempt.rejected.items():
        by_plugin[verdict.plugin][node] = [verdict.code, *verdict.reasons]
    return {f"filter {plugin or _NOT_IN_PREFILTER_RESULT}": by_plugin[plugin] for plugin in sorted(by_plugin)}


def _preemption_facts(preemption: RecordedPreemption) -> Facts:
    outcome = msgspec.to_builtins(preemption)
    candidates, ties = outcome.pop("candidates"), outcome.pop("ties")
    facts = {PREEMPTION: outcome}
    if candidates is not None:
        facts[f"{PREEMPTION} candidates"] = candidates
    if ties is not None:
        facts[f"{PREEMPTION} ties"] = ties
    return facts


def _binding_facts(attempt: ReplayAttempt) -> Facts:
    return {
        subject: fact
        for subject, fact in (
            ("reserve failure", attempt.reserve_failure),
            ("preBind failure", attempt.pre_bind_failure),
            ("claims", attempt.claims),
            ("claim status", attempt.claim_status),
            ("allocations by node", attempt.node_allocations),
            ("extended resource requests", attempt.extended_requests),
            ("extended resource mappings", attempt.extended_mappings),
            ("deallocated claims", attempt.deallocated),
        )
        if fact is not None
    }


def _leave_out_missing_plugin(
    report: VerifyReport, family: str, recorded: Facts, found: Facts, replayed: Replayed
) -> None:
    """Take what a missing PostFilter plugin did and said out of the recorded facts.

    Its message follows those of the plugins before it, unless it found victims or failed: then theirs are
    dropped, and in the former case it has none.
    """
    outcome = recorded.get(PREEMPTION, {})
    for subject in [subject for subject in recorded if subject.startswith(PREEMPTION)]:
        del recorded[subject]
        report.not_built(family, subject)
    report.not_built(family, f"{MESSAGE}, words of {replayed.missing}")
    if outcome.get("code") != "Unschedulable":
        found[MESSAGE] = replayed.message_alone
    known, message = found[MESSAGE], recorded.get(MESSAGE) or ""
    if outcome.get("code") != "Success" and message.startswith((f"{known}, ", f"{known} ")):
        recorded[MESSAGE] = known


def _unequal(expected: Any, actual: Any) -> tuple[Any, Any]:
    """Two facts without what is the same in both."""
    if not isinstance(expected, dict) or not isinstance(actual, dict):
        return expected, actual
    names = [name for name in {**expected, **actual} if expected.get(name) != actual.get(name)]
    return (
        {name: expected[name] for name in names if name in expected},
        {name: actual[name] for name in names if name in actual},
    )
