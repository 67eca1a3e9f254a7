"""Results of a Job's pods: indexes, failures that count and those that do not, and the end of the Job."""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final

from stowplan.api.requests import Json
from stowplan.gocompat.numbers import parse_count
from stowplan.localcluster.controllers.workloads.replicaset import pods_to_delete
from stowplan.localcluster.objects.fields import (
    annotations_of,
    condition_of,
    count_in,
    created_at,
    finalizers_of,
    is_active,
    is_deleting,
    is_finished,
    is_ready,
    name_of,
    namespace_of,
    phase_of,
    spec_of,
    status_of,
    time_of,
    uid_of,
)

TRACKING: Final = "batch.kubernetes.io/job-tracking"
INDEX: Final = "batch.kubernetes.io/job-completion-index"
FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURES: Final = "batch.kubernetes.io/job-index-ignored-failure-count"

SUCCESS: Final = "SuccessCriteriaMet"
FAILURE: Final = "FailureTarget"
BASE_BACKOFF: Final = 10.0
MAX_BACKOFF: Final = 600.0


def is_indexed(job: Json) -> bool:
    return spec_of(job).get("completionMode") == "Indexed"


def is_suspended(job: Json) -> bool:
    return bool(spec_of(job).get("suspend"))


def limits_each_index(job: Json) -> bool:
    return spec_of(job).get("backoffLimitPerIndex") is not None


def replaces_only_failed(job: Json) -> bool:
    """True if a pod is replaced only when it has ended, not while it terminates."""
    return spec_of(job).get("podReplacementPolicy") == "Failed"


def is_tracked(pod: Json) -> bool:
    return TRACKING in finalizers_of(pod)


def is_job_finished(job: Json) -> bool:
    return any((condition_of(job, kind) or {}).get("status") == "True" for kind in ("Complete", "Failed"))


# Indexes

MOST_INDEXES: Final = 1_000_000
"""Indexes of a job that are kept one by one."""


def index_ranges(text: str, completions: int | None = None) -> list[range]:
    """Indexes written as `0,2-5`, those below the number of completions, as ranges in ascending order."""
    ends: list[tuple[int, int]] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        begin, end = parse_count(first), parse_count(last or first)
        if begin is not None and end is not None:
            ends.append((begin, end + 1 if completions is None else min(end + 1, completions)))
    found: list[range] = []
    for begin, end in sorted(ends):
        begin = max(begin, found[-1].stop) if found else begin
        if begin < end:
            found.append(range(begin, end))
    return found


def read_indexes(text: str, completions: int | None = None) -> set[int]:
    """The indexes themselves, up to MOST_INDEXES of them: `0-2147483646` would take a hundred gigabytes."""
    return set(islice(chain.from_iterable(index_ranges(text, completions)), MOST_INDEXES))


def write_indexes(indexes: Iterable[int]) -> str:
    ranges: list[list[int]] = []
    for index in sorted(indexes):
        if ranges and ranges[-1][1] == index - 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])
    return ",".join(str(a) if a == b else f"{a}{',' if b == a + 1 else '-'}{b}" for a, b in ranges)


def index_of(pod: Json) -> int | None:
    text = annotations_of(pod).get(INDEX, "")
    return parse_count(text)


def failures_of(pod: Json) -> tuple[int, int]:
    """How often a pod's index had failed before, as counted and as ignored."""
    found = (annotations_of(pod).get(key, "") for key in (FAILURES, IGNORED_FAILURES))
    counted, ignored = (parse_count(text) or 0 for text in found)
    return counted, ignored


# Failures


@dataclass(frozen=True, slots=True)
class JobVerdict:
    """Verdict of the pod failure policy on a failed pod; `fails_job` is why the whole Job has failed."""

    counts: bool = True
    fails_index: bool = False
    fails_job: str = ""


def verdict_on(job: Json, pod: Json) -> JobVerdict:
    """The first rule of the pod failure policy that fits decides."""
    for number, rule in enumerate((spec_of(job).get("podFailurePolicy") or {}).get("rules") or ()):
        why = _why_rule_fits(rule, pod)
        if not why:
            continue
        action = rule.get("action")
        if action == "FailJob":
            return JobVerdict(fails_job=f"{why} matching FailJob rule at index {number}")
        return JobVerdict(counts=action != "Ignore", fails_index=action == "FailIndex")
    return JobVerdict()


def _why_rule_fits(rule: Json, pod: Json) -> str:
    """Why a rule fits a failed pod, empty if it does not."""
    who = f"{namespace_of(pod)}/{name_of(pod)}"
    if rule.get("onExitCodes"):
        for status in _ended_containers(pod):
            code = status["state"]["terminated"].get("exitCode", 0)
            if code and _fits_code(rule["onExitCodes"], status.get("name", ""), code):
                return f"Container {status.get('name', '')} for pod {who} failed with exit code {code}"
        return ""
    wanted = {(one.get("type"), one.get("status")) for one in rule.get("onPodConditions") or ()}
    for one in status_of(pod).get("conditions") or ():
        if (one.get("type"), one.get("status")) in wanted:
            return f"Pod {who} has condition {one.get('type')}"
    return ""


def _ended_containers(pod: Json) -> list[Json]:
    status = status_of(pod)
    every = (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ()))
    return [one for one in every if (one.get("state") or {}).get("terminated")]


def _fits_code(rule: Json, container: str, code: int) -> bool:
    if rule.get("containerName") not in (None, container):
        return False
    return (code in (rule.get("values") or ())) == (rule.get("operator") == "In")


def is_failed(job: Json, pod: Json) -> bool:
    """True if a pod has failed. A deleted one may never report it."""
    if phase_of(pod) == "Failed":
        return True
    return not replaces_only_failed(job) and is_deleting(pod) and phase_of(pod) != "Succeeded"


# All pods together


class JobPods:
    """The pods of a Job, and how many have ended how.

    Each counts once, also if it is deleted meanwhile: a pod that has ended is first written down by its uid,
    then loses its finalizer, then becomes a number. `freed` are the uids of those that have lost it, though
    the pods may not show that yet. `group` is the PodGroup that new pods belong to.
    """

    def __init__(
        self, job: Json, pods: Sequence[Json], freed: Collection[str] = (), group: Json | None = None
    ) -> None:
        status = status_of(job)
        self.group = group
        self.job = job
        self.pods = pods
        self.completions: int | None = spec_of(job).get("completions")
        self.active = [pod for pod in pods if is_active(pod)]
        self.terminating = [pod for pod in pods if is_deleting(pod) and not is_finished(pod)]
        tracked = (pod for pod in pods if is_tracked(pod) and uid_of(pod) not in freed)
        self.tracked = sorted(tracked, key=_by_index)
        held = {uid_of(pod) for pod in self.tracked}
        known = status.get("uncountedTerminatedPods") or {}
        succeeded, failed = known.get("succeeded") or (), known.get("failed") or ()
        self.uncounted_succeeded = [uid for uid in succeeded if uid in held]
        self.uncounted_failed = [uid for uid in failed if uid in held]
        let_go = len(succeeded) - len(self.uncounted_succeeded), len(failed) - len(self.uncounted_failed)
        self.counted_succeeded = count_in(status, "succeeded") + let_go[0]
        self.counted_failed = count_in(status, "failed") + let_go[1]
        valid = [pod for pod in self.tracked if self.has_valid_index(pod)]
        self.new_succeeded = [
            pod for pod in valid if phase_of(pod) == "Succeeded" and uid_of(pod) not in succeeded
        ]
        self.new_failed = [pod for pod in valid if is_failed(job, pod) and uid_of(pod) not in failed]
        self.completed_indexes: set[int] = set()
        self.failed_indexes: set[int] = set()
        self.delayed: dict[int, Json] = {}
        if is_indexed(job):
            self._read_indexes(status, valid)

    def _read_indexes(self, status: Json, valid: Sequence[Json]) -> None:
        self.completed_indexes = read_indexes(status.get("completedIndexes") or "", self.completions)
        self.completed_indexes |= indexes_of(pod for pod in valid if phase_of(pod) == "Succeeded")
        if limits_each_index(self.job):
            self.failed_indexes = read_indexes(status.get("failedIndexes") or "", self.completions)
            self.failed_indexes |= indexes_of(pod for pod in valid if self._fails_index(pod))
            self.delayed = self._delayed(valid)

    def has_valid_index(self, pod: Json) -> bool:
        if not is_indexed(self.job):
            return True
        index = index_of(pod)
        return index is not None and index < (self.completions or 0)

    def _fails_index(self, pod: Json) -> bool:
        if not is_failed(self.job, pod):
            return False
        verdict = verdict_on(self.job, pod)
        limit = count_in(spec_of(self.job), "backoffLimitPerIndex")
        return verdict.fails_index or (verdict.counts and failures_of(pod)[0] >= limit)

    def _delayed(self, valid: Sequence[Json]) -> dict[int, Json]:
        """Failed pods by index that are kept until their successor has taken over the count of failures."""
        settled = self.completed_indexes | self.failed_indexes | indexes_of(self.active)
        found: dict[int, Json] = {}
        for pod in valid:
            index = index_of(pod)
            if index is None or index in settled or not is_failed(self.job, pod):
                continue
            held = found.get(index)
            if held is None or (sum(failures_of(held)), finished_at(held)) <= (
                sum(failures_of(pod)),
                finished_at(pod),
            ):
                found[index] = pod
        return found

    @property
    def succeeded(self) -> int:
        if is_indexed(self.job):
            return len(self.completed_indexes)
        return self.counted_succeeded + len(self.uncounted_succeeded) + len(self.new_succeeded)

    @property
    def failed(self) -> int:
        counting = sum(verdict_on(self.job, pod).counts for pod in self.new_failed)
        return self.counted_failed + len(self.uncounted_failed) + counting

    def can_be_freed(self, pod: Json, *, is_over: bool) -> bool:
        """True if a pod's finalizer may be removed once the pod is recorded."""
        if is_deleting(self.job) or is_over or phase_of(pod) == "Succeeded":
            return True
        index = index_of(pod)
        is_kept = index is not None and self.delayed.get(index) is pod
        return is_failed(self.job, pod) and not is_kept


def indexes_of(pods: Iterable[Json]) -> set[int]:
    return {index for pod in pods if (index := index_of(pod)) is not None}


def _by_index(pod: Json) -> int:
    index = index_of(pod)
    return -1 if index is None else index


# The end


@dataclass(frozen=True, slots=True)
class Ending:
    """How a Job ends: first as what it will be (`type`), when its last pod has gone as what it is."""

    type: str
    reason: str
    message: str

    @property
    def final(self) -> str:
        return "Complete" if self.type == SUCCESS else "Failed"


REACHED: Final = Ending(SUCCESS, "CompletionsReached", "Reached expected number of succeeded pods")
TOO_OFTEN: Final = Ending(FAILURE, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
TOO_LONG: Final = Ending(FAILURE, "DeadlineExceeded", "Job was active longer than specified deadline")
TOO_MANY_INDEXES: Final = Ending(
    FAILURE,
    "MaxFailedIndexesExceeded",
    "Job has exceeded the specified maximal number of failed indexes",
)
FAILED_INDEXES: Final = Ending(FAILURE, "FailedIndexes", "Job has failed indexes")


def early_ending(pods: JobPods, now: float) -> Ending | None:
    """End of a Job regardless of its active pods, None if there is none. A decided end stays."""
    job = pods.job
    for kind in (SUCCESS, FAILURE):
        held = condition_of(job, kind)
        if held is not None and held.get("status") == "True":
            return Ending(kind, held.get("reason", ""), held.get("message", ""))
    for pod in pods.pods:
        why = verdict_on(job, pod).fails_job if is_failed(job, pod) else ""
        if why:
            return Ending(FAILURE, "PodFailurePolicy", why)
    if pods.failed > count_in(spec_of(job), "backoffLimit", 6) or _restarts_too_often(pods):
        return TOO_OFTEN
    left = deadline_left(job, now)
    if left is not None and left <= 0:
        return TOO_LONG
    return _index_ending(pods) if is_indexed(job) else None


def _index_ending(pods: JobPods) -> Ending | None:
    spec = spec_of(pods.job)
    failed, completed = len(pods.failed_indexes), len(pods.completed_indexes)
    most = spec.get("maxFailedIndexes")
    if failed and most is not None and failed > most:
        return TOO_MANY_INDEXES
    if failed and failed + completed >= (pods.completions or 0):
        return FAILED_INDEXES
    for number, rule in enumerate((spec.get("successPolicy") or {}).get("rules") or ()):
        if _is_success(rule, pods.completed_indexes, pods.completions or 0):
            return Ending(SUCCESS, "SuccessPolicy", f"Matched rules at index {number}")
    return None


def _is_success(rule: Json, completed: Collection[int], completions: int) -> bool:
    """True if the indexes of a rule, or the number it gives, have succeeded."""
    count = rule.get("succeededCount")
    if rule.get("succeededIndexes") is None:
        return count is not None and len(completed) >= count
    wanted = index_ranges(rule["succeededIndexes"], completions)
    starts = [one.start for one in wanted]
    done = sum(1 for index in completed if _is_within(index, wanted, starts))
    return bool(wanted) and (done == sum(map(len, wanted)) or (count is not None and done >= count))


def _is_within(index: int, ranges: Sequence[range], starts: Sequence[int]) -> bool:
    place = bisect_right(starts, index)
    return place > 0 and index in ranges[place - 1]


def _restarts_too_often(pods: JobPods) -> bool:
    """Failures of containers that are started again within their pods."""
    spec = spec_of(pods.job)
    if ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy") != "OnFailure":
        return False
    restarts = sum(
        count_in(one, "restartCount")
        for pod in pods.pods
        if phase_of(pod) in ("Running", "Pending")
        for kind in ("containerStatuses", "initContainerStatuses")
        for one in status_of(pod).get(kind) or ()
    )
    limit = count_in(spec, "backoffLimit", 6)
    return restarts >= max(limit, 1)


def deadline_left(job: Json, now: float) -> float | None:
    """Seconds until a Job's deadline, None if it has none or does not run."""
    deadline, begun = spec_of(job).get("activeDeadlineSeconds"), status_of(job).get("startTime")
    if not isinstance(deadline, int) or not begun or is_suspended(job):
        return None
    return time_of(begun) + deadline - now


def is_complete(pods: JobPods, active: int) -> bool:
    """True if enough pods have succeeded and no other is active."""
    enough = 1 if pods.completions is None else pods.completions
    return pods.succeeded >= enough and active == 0


# Number of pods


def wanted_active(pods: JobPods) -> int:
    """Number of pods that should run at the moment."""
    spec = spec_of(pods.job)
    if is_suspended(pods.job):
        return 0
    parallelism = count_in(spec, "parallelism", 1)
    if pods.completions is None:
        return len(pods.active) if pods.succeeded else parallelism
    return min(parallelism, max(pods.completions - pods.succeeded, 0))


def surplus(pods: JobPods, at_least: int, now: float) -> list[Json]:
    """Active pods to delete: those whose index is wrong or taken, and others to reach the number."""
    going: list[Json] = []
    staying = list(pods.active)
    if is_indexed(pods.job):
        going = [pod for pod in pods.active if not pods.has_valid_index(pod)]
        by_index: dict[int | None, list[Json]] = {}
        for pod in pods.active:
            if pods.has_valid_index(pod):
                by_index.setdefault(index_of(pod), []).append(pod)
        for same in by_index.values():
            going += pods_to_delete(same, len(same) - 1, {}, now)
        gone = {uid_of(pod) for pod in going}
        staying = [pod for pod in pods.active if uid_of(pod) not in gone]
    return going + pods_to_delete(staying, max(at_least - len(going), 0), {}, now)


def missing_indexes(pods: JobPods, number: int) -> list[int]:
    """The lowest indexes that neither are settled nor have a pod."""
    taken = pods.completed_indexes | pods.failed_indexes | indexes_of(pods.active)
    if replaces_only_failed(pods.job):
        taken |= indexes_of(pods.terminating)
    found: list[int] = []
    for index in range(pods.completions or 0):
        if len(found) == number:
            break
        if index not in taken:
            found.append(index)
    return found


# Pauses after failures


@dataclass(frozen=True, slots=True)
class JobBackoff:
    """Number of failed pods since the last success, and the time of the last of them."""

    failures: int = 0
    since: float = 0.0

    def after(self, succeeded: Sequence[Json], failed: Sequence[Json]) -> "JobBackoff":
        """The backoff including pods that have ended since."""
        if not succeeded and not failed:
            return self
        last_success = max(map(finished_at, succeeded), default=0.0)
        later = [moment for moment in map(finished_at, failed) if not succeeded or moment > last_success]
        before = 0 if succeeded else self.failures
        return JobBackoff(before + len(later), max(later)) if later else JobBackoff()

    def left(self, now: float) -> float:
        return pause_left(self.failures, self.since, now)


def pause_left(failures: int, since: float, now: float) -> float:
    """Seconds to wait before the next pod: longer after every failure in a row."""
    if not failures:
        return 0.0
    pause = min(BASE_BACKOFF * 2.0 ** min(failures - 1, 10), MAX_BACKOFF)
    return float(max(since + pause - now, 0.0))


def index_pause_left(failed: Json | None, now: float) -> float:
    """The same for one index, whose last pod that failed this is."""
    return 0.0 if failed is None else pause_left(sum(failures_of(failed)) + 1, finished_at(failed), now)


def finished_at(pod: Json) -> float:
    """Time when a pod ended, as precisely as it is known."""
    statuses = status_of(pod).get("containerStatuses") or ()
    ends = [((one.get("state") or {}).get("terminated") or {}).get("finishedAt") for one in statuses]
    if ends and all(ends):
        return max(map(time_of, ends))
    ready = condition_of(pod, "Ready")
    if ready is not None and not is_ready(pod) and ready.get("lastTransitionTime"):
        return time_of(ready["lastTransitionTime"])
    if is_deleting(pod):
        metadata: Json = pod["metadata"]
        return time_of(metadata["deletionTimestamp"]) - count_in(metadata, "deletionGracePeriodSeconds")
    return created_at(pod)
