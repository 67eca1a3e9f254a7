"""The best rows are the best rows, however totals move and however the ranking keeps track of them."""

from unittest import mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stowplan.scheduler.framework.reuse import ranking as module
from stowplan.scheduler.framework.reuse.ranking import INFEASIBLE, Ranking

CAPACITY = 1024
SHORT = 9
"""Rows on the short list: so few that floors and rebuilding matter all the time."""

TOTALS = st.one_of(
    st.just(INFEASIBLE), st.integers(0, 3000), st.integers(1, 20).map(lambda below: 3000 - below)
)
MOVES = st.lists(
    st.tuples(st.sampled_from(["best", "any", "many"]), st.integers(0, 700), TOTALS, st.integers(1, 7)),
    min_size=30,
    max_size=80,
)


@given(st.integers(0, 2**32), st.sampled_from([2, 40, 700, 3000]), MOVES)
def test_the_first_so_many_are_found_after_any_change(
    seed: int, spread: int, moves: list[tuple[str, int, int, int]]
) -> None:
    with mock.patch.multiple(module, _SHORTLIST=SHORT, _PATIENCE=3):
        _play(seed, spread, moves)


def _play(seed: int, spread: int, moves: list[tuple[str, int, int, int]]) -> None:
    ranking = Ranking(CAPACITY)
    ranking.totals[:700] = np.random.default_rng(seed).integers(0, spread, 700)
    ranking.refresh_all()
    for which, row, total, count in moves:
        found = ranking.top_rows(count)
        assert found == np.argsort(~ranking.totals, kind="stable")[:count].tolist()
        top, ties = ranking.best()
        assert [ranking.pick(top, nth) for nth in range(ties)] == ranking.ties(top).tolist()
        if which == "many":
            rows = np.array(sorted({row, (row * 7) % 700, (row * 13) % 700}))
            ranking.totals[rows] = total
            ranking.refresh(rows)
        else:
            ranking.put(found[0] if which == "best" else row, total)
