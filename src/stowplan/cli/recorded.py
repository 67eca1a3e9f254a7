"""Choosing a decision from recordings, and deciding it again to see why."""

from collections.abc import Iterable
from dataclasses import dataclass

from stowplan.framework.decision import Decision, decide
from stowplan.framework.evaluation import Evaluation
from stowplan.verify.replay import Replay
from stowplan.verify.scenario import Attempt, Scenario


@dataclass(frozen=True, slots=True)
class Moment:
    """One attempt of one recorded scenario."""

    family: str
    scenario: Scenario
    position: int

    @property
    def attempt(self) -> Attempt:
        return self.scenario.expected[self.position]

    @property
    def worth(self) -> int:
        """How much there is to see: reasons against nodes, plugins that tell nodes apart, a clear winner."""
        attempt = self.attempt
        if attempt.error is not None or attempt.total is None:
            return 0
        rejectors = {verdict.plugin for verdict in attempt.rejected.values()}
        scorers = [scores for scores in (attempt.scores or {}).values() if len(set(scores.values())) > 1]
        clear_winner = len(attempt.best) == 1 and len(attempt.feasible) > 3
        return 2 * len(rejectors) + len(scorers) + 3 * clear_winner


def moments(family: str, scenario: Scenario) -> Iterable[Moment]:
    """All attempts of a scenario that the engine can decide: extenders and device claims are left out."""
    if scenario.prebind or scenario.has_extenders:
        return
    for position in range(len(scenario.expected)):
        yield Moment(family, scenario, position)


def decide_again(moment: Moment, top: int = 5) -> Decision:
    """Replay the scenario up to this attempt and decide it. Raises PluginError.

    Among equals a recording takes the first by name, and so does this.
    """
    under_way = Replay(moment.scenario)
    for position, outcome in enumerate(moment.scenario.expected[: moment.position]):
        under_way.settle(outcome, position)
    evaluation = under_way.evaluate(moment.attempt.pod)
    return decide(evaluation, lambda ties: _first_by_name(evaluation), top)


def _first_by_name(evaluation: Evaluation) -> int:
    name_of = evaluation.cycle.table.name_of
    names = [name_of(row) for row in evaluation.best_rows().tolist()]
    return names.index(min(names))
