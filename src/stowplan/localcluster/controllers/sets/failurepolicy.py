"""Failure policies of JobSets: what failed Jobs mean for the whole set."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from stowplan.api.requests import Json
from stowplan.gocompat import regexps
from stowplan.localcluster.objects.fields import condition_of, count_in, labels_of, name_of, spec_of, time_of
from stowplan.localcluster.objects.jobsets import REPLICATED_JOB

FAIL: Final = "FailJobSet"
RESTART: Final = "RestartJobSet"
RESTART_UNCOUNTED: Final = "RestartJobSetAndIgnoreMaxRestarts"


@dataclass(frozen=True, slots=True)
class Verdict:
    """End of a JobSet or a restart of it, with reason and message of its event and condition.

    `counts`: the restart counts towards `maxRestarts`. `condition_reason` is that of `RestartingJobSet`.
    """

    fails: bool
    reason: str
    note: str
    counts: bool = False
    condition_reason: str = ""


def verdict_on(jobset: Json, failed: Sequence[Json], counted_restarts: int) -> Verdict:
    """Apply the first rule that matches a failed Job; without rules the set is restarted, without a policy
    it fails."""
    policy = spec_of(jobset).get("failurePolicy")
    first = min(failed, key=_failed_at)
    if policy is None:
        return _failure("FailedJobs", "jobset failed due to one or more job failures", first)
    rule: Json | None = None
    for candidate in policy.get("rules") or ():
        matching = [job for job in failed if _matches(candidate, job)]
        if matching:
            rule, first = candidate, min(matching, key=_failed_at)
            break
    action = RESTART if rule is None else rule.get("action")
    if action == FAIL:
        return _failure(f"{FAIL}FailurePolicyAction", f"applying {FAIL} failure policy action", first)
    counts = action != RESTART_UNCOUNTED
    if counts and counted_restarts >= count_in(policy, "maxRestarts"):
        note = "jobset failed due to reaching max number of restarts"
        return _failure("ReachedMaxRestarts", note, first)
    return Verdict(
        fails=False,
        reason=f"{action}FailurePolicyAction",
        note=_about(f"applying {action} failure policy action", first),
        counts=counts,
        condition_reason="DefaultFailurePolicy" if rule is None else f"FailurePolicy_{rule.get('name', '')}",
    )


def _failure(reason: str, note: str, job: Json) -> Verdict:
    return Verdict(fails=True, reason=reason, note=_about(note, job))


def _about(note: str, job: Json) -> str:
    return f"{note} (first failed job: {name_of(job)})"


def _failed_at(job: Json) -> float:
    return time_of((condition_of(job, "Failed") or {}).get("lastTransitionTime"))


def _matches(rule: Json, job: Json) -> bool:
    """True if reason, message and replicated Job of a failure are those of a rule; empty lists match all."""
    failure = condition_of(job, "Failed") or {}
    reasons, targets = rule.get("onJobFailureReasons"), rule.get("targetReplicatedJobs")
    patterns = rule.get("onJobFailureMessagePatterns")
    if reasons and failure.get("reason") not in reasons:
        return False
    if patterns and not any(_found(pattern, failure.get("message") or "") for pattern in patterns):
        return False
    return not targets or labels_of(job).get(REPLICATED_JOB) in targets


def _found(pattern: str, message: str) -> bool:
    """True if a pattern is found in a message; one that is no regular expression matches nothing."""
    try:
        return regexps.compile(pattern).matches(message)
    except (regexps.RegexpError, regexps.TooCostlyError):
        return False
