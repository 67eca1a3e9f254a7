"""What a Job does next: which pods count, whether it is over, how many more it needs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from stowplan.api.requests import Json
from stowplan.embedded.controllers.objects import (
    annotations_of,
    condition_of,
    count_in,
    finalizers_of,
    is_active,
    is_deleting,
    is_finished,
    is_ready,
    phase_of,
    spec_of,
    status_of,
    time_of,
    uid_of,
)

TRACKING: Final = "batch.kubernetes.io/job-tracking"
INDEX: Final = "batch.kubernetes.io/job-completion-index"
REACHED: Final = ("CompletionsReached", "Reached expected number of succeeded pods")
TOO_OFTEN: Final = ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
TOO_LONG: Final = ("DeadlineExceeded", "Job was active longer than specified deadline")

FIRST_BACKOFF: Final = 10.0
LONGEST_BACKOFF: Final = 600.0


def is_over(job: Json) -> bool:
    return any((condition_of(job, kind) or {}).get("status") == "True" for kind in ("Complete", "Failed"))


@dataclass(slots=True)
class Tally:
    """How many pods of a Job have ended how. Each counts once, also if it is deleted meanwhile.

    A pod that has ended is first written down by its uid, then loses its finalizer, then becomes a number.
    """

    succeeded: int = 0
    failed: int = 0
    indexes: set[int] = field(default_factory=set)
    uncounted_succeeded: list[str] = field(default_factory=list)
    uncounted_failed: list[str] = field(default_factory=list)
    settled: list[Json] = field(default_factory=list)

    @property
    def all_succeeded(self) -> int:
        return self.succeeded + len(self.uncounted_succeeded)

    @property
    def all_failed(self) -> int:
        return self.failed + len(self.uncounted_failed)


def tally(job: Json, pods: Sequence[Json]) -> Tally:
    """The count as it is to be written now; `settled` are the pods whose finalizer may go then."""
    status = status_of(job)
    known = status.get("uncountedTerminatedPods") or {}
    held = {uid_of(pod): pod for pod in pods if TRACKING in finalizers_of(pod)}
    result = Tally(
        count_in(status, "succeeded"),
        count_in(status, "failed"),
        read_indexes(status.get("completedIndexes") or ""),
    )
    for uid in known.get("succeeded") or ():
        if uid in held:
            result.uncounted_succeeded.append(uid)
        else:
            result.succeeded += 1
    for uid in known.get("failed") or ():
        if uid in held:
            result.uncounted_failed.append(uid)
        else:
            result.failed += 1
    listed = {*result.uncounted_succeeded, *result.uncounted_failed}
    for uid, pod in held.items():
        if uid in listed:
            continue
        if phase_of(pod) == "Succeeded":
            result.uncounted_succeeded.append(uid)
        elif is_finished(pod) or is_deleting(pod):
            result.uncounted_failed.append(uid)
    result.settled = [held[uid] for uid in (*result.uncounted_succeeded, *result.uncounted_failed)]
    if is_indexed(job):
        result.indexes |= {
            index
            for pod in result.settled
            if phase_of(pod) == "Succeeded" and (index := index_of(pod)) is not None
        }
        result.succeeded = len(result.indexes) - len(result.uncounted_succeeded)
    return result


def is_indexed(job: Json) -> bool:
    return spec_of(job).get("completionMode") == "Indexed"


def index_of(pod: Json) -> int | None:
    text = annotations_of(pod).get(INDEX, "")
    return int(text) if text.isdigit() else None


def verdict(job: Json, count: Tally, active: Sequence[Json], now: float) -> tuple[str, str, str] | None:
    """How a Job has ended: the condition, its reason and message; None while it goes on."""
    for kind, over in (("FailureTarget", "Failed"), ("SuccessCriteriaMet", "Complete")):
        told = condition_of(job, kind)
        if told is not None and told.get("status") == "True":
            return over, told.get("reason", ""), told.get("message", "")
    limit = count_in(spec_of(job), "backoffLimit", 6)
    if count.all_failed > limit or _restarts(job, active) > limit:
        return "Failed", *TOO_OFTEN
    deadline = spec_of(job).get("activeDeadlineSeconds")
    begun = status_of(job).get("startTime")
    if isinstance(deadline, int) and begun and now - time_of(begun) >= deadline:
        return "Failed", *TOO_LONG
    completions = spec_of(job).get("completions")
    if completions is None:
        done = count.all_succeeded > 0 and not active
    else:
        done = count.all_succeeded >= completions
    return ("Complete", *REACHED) if done else None


def _restarts(job: Json, active: Iterable[Json]) -> int:
    """Failures of containers that were started again within their pods."""
    if ((spec_of(job).get("template") or {}).get("spec") or {}).get("restartPolicy") != "OnFailure":
        return 0
    return sum(
        count_in(one, "restartCount")
        for pod in active
        for one in status_of(pod).get("containerStatuses") or ()
    )


def wanted_active(job: Json, count: Tally, active: int) -> int:
    """How many pods should run at the moment."""
    spec = spec_of(job)
    if spec.get("suspend"):
        return 0
    parallelism = count_in(spec, "parallelism", 1)
    completions: int | None = spec.get("completions")
    if completions is None:
        return min(active, parallelism) if count.all_succeeded else parallelism
    return min(parallelism, max(completions - count.all_succeeded, 0))


def missing_indexes(job: Json, count: Tally, active: Iterable[Json], number: int) -> list[int]:
    """The lowest indexes that neither are done nor have a pod."""
    taken = count.indexes | {index for pod in active if (index := index_of(pod)) is not None}
    found: list[int] = []
    for index in range(count_in(spec_of(job), "completions")):
        if len(found) == number:
            break
        if index not in taken:
            found.append(index)
    return found


def read_indexes(text: str) -> set[int]:
    """Indexes written as `0,2-5`."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        if first.isdigit() and (last or first).isdigit():
            found |= set(range(int(first), int(last or first) + 1))
    return found


def write_indexes(indexes: Iterable[int]) -> str:
    ranges: list[list[int]] = []
    for index in sorted(indexes):
        if ranges and ranges[-1][1] == index - 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)


@dataclass(slots=True)
class Failures:
    """How many pods of a Job have failed since one last succeeded, and when the last of them was noticed."""

    in_a_row: int = 0
    since: float = 0.0
    failed: int = 0
    succeeded: int = 0

    def learn(self, count: Tally, now: float) -> None:
        if count.all_succeeded > self.succeeded:
            self.in_a_row = 0
        elif count.all_failed > self.failed:
            self.in_a_row += count.all_failed - self.failed
            self.since = now
        self.failed, self.succeeded = count.all_failed, count.all_succeeded


def backoff(failures: int) -> float:
    """Seconds to wait after so many failures in a row."""
    return min(FIRST_BACKOFF * 2 ** min(failures - 1, 10), LONGEST_BACKOFF) if failures else 0.0


def status_for(job: Json, count: Tally, pods: Sequence[Json]) -> Json:
    """The counts of a Job."""
    active = [pod for pod in pods if is_active(pod)]
    status: Json = {
        "active": len(active),
        "ready": sum(map(is_ready, active)),
        "terminating": sum(1 for pod in pods if is_deleting(pod) and not is_finished(pod)),
        "succeeded": count.succeeded,
        "failed": count.failed,
        "uncountedTerminatedPods": {
            kind: uids
            for kind, uids in (("succeeded", count.uncounted_succeeded), ("failed", count.uncounted_failed))
            if uids
        },
    }
    if is_indexed(job):
        status["completedIndexes"] = write_indexes(count.indexes)
    return status
