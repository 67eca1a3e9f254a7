"""Results of a search for victims about nodes that are no candidates, put into words on request."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from stowplan.scheduler.framework import Code, Status
from stowplan.scheduler.framework.advanced import Evaluation, RuledOut, RuledOutNode
from stowplan.scheduler.plugins.defaultpreemption.candidates import REASON_NO_VICTIMS
from stowplan.scheduler.plugins.defaultpreemption.dryrun import DryRun
from stowplan.scheduler.table.changes import Rows

EXAMPLES: Final = 3


@dataclass(slots=True)
class Search:
    """A search that is over: the rows that could be tried, and how many turned out to be candidates.

    Where there was nothing to try there was no dry run.
    """

    evaluation: Evaluation
    rows: Rows
    dry_run: DryRun | None = None
    candidates: int = 0

    def not_candidates(self) -> list[RuledOut]:
        """All nodes but the candidates, by reason, largest group first; while the table does not change."""
        failed = [] if self.dry_run is None else self.dry_run.not_candidates()
        by_reason: dict[str, list[Rows]] = {}
        for status, rows in (*self._not_tried(), *failed):
            by_reason.setdefault(self._reason(status), []).append(rows)
        found = [self._ruled_out(reason, np.concatenate(rows)) for reason, rows in by_reason.items()]
        found.sort(key=lambda one: -one.nodes)
        left = len(self.rows) - self.candidates - sum(len(rows) for _, rows in failed)
        if left:
            found.append(RuledOut(f"not looked at: {self.candidates} candidates were enough", left))
        return found

    def _not_tried(self) -> Iterator[tuple[Status, Rows]]:
        """Nodes that are rejected for something that does not depend on their pods."""
        for status, rows in self.evaluation.rejections().items():
            hopeless = rows[~np.isin(rows, self.rows)]
            if len(hopeless):
                yield status, hopeless

    def _ruled_out(self, reason: str, rows: Rows) -> RuledOut:
        name_of = self.evaluation.cycle.table.name_of
        examples = tuple(RuledOutNode(name_of(row)) for row in np.sort(rows)[:EXAMPLES].tolist())
        return RuledOut(reason, len(rows), examples)

    def _reason(self, status: Status) -> str:
        if REASON_NO_VICTIMS in status.reasons:
            return f"no pod of lower priority than {self.evaluation.cycle.pod.priority}"
        reasons = ", ".join(status.reasons) or status.code.label
        if status.code is Code.ERROR:
            return reasons
        if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return f"evicting pods would not help: {reasons}"
        return f"even without their pods of lower priority: {reasons}"
