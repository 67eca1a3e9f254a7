"""The last decisions about pods, kept for explanations."""

from stowplan.runtime.clock import Clock
from stowplan.scheduler.cycle.assignment import Assignment
from stowplan.scheduler.cycle.instrument import Instrument
from stowplan.scheduler.decisions import LastDecisions, PodRecord, PreemptionRecord
from stowplan.scheduler.framework.decision import DecisionRecord
from stowplan.scheduler.queue.queued_pod import QueuedPod


class DecisionsInstrument(Instrument):
    """Keeps the decisions of scheduling cycles, and how they went on."""

    def __init__(self, decisions: LastDecisions, clock: Clock) -> None:
        self._decisions = decisions
        self._clock = clock

    def decided(
        self,
        queued: QueuedPod,
        record: DecisionRecord | None,
        outcome: str,
        message: str,
        preempting: PreemptionRecord | None = None,
    ) -> None:
        self._decisions.put(
            PodRecord(
                queued.key,
                queued.uid,
                self._clock.now(),
                queued.attempts,
                record,
                outcome,
                message,
                preempting,
            )
        )

    def attempt_went_on(self, uid: str, outcome: str, message: str, seconds: float | None = None) -> None:
        self._decisions.update(uid, outcome, message, seconds)

    def bound(self, assignment: Assignment, note: str, seconds: float, waited: float | None) -> None:
        self._decisions.update(assignment.queued.uid, "bound", note, seconds)
