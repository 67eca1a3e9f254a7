"""The best rows are the best rows, however totals move and however the ranking keeps track of them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stowplan.framework.ranking import Ranking

CAPACITY = 1024
TOTALS = st.one_of(st.just(-1), st.integers(0, 2000), st.sampled_from([500, 501, 1990]))
MOVES = st.lists(
    st.tuples(st.sampled_from(["best", "any", "many"]), st.integers(0, 700), TOTALS, st.integers(1, 7)),
    min_size=30,
    max_size=80,
)


@given(st.integers(0, 2**32), st.integers(2, 3000), MOVES)
def test_the_first_so_many_are_found_after_any_change(
    seed: int, spread: int, moves: list[tuple[str, int, int, int]]
) -> None:
    ranking = Ranking(CAPACITY)
    ranking.totals[:700] = np.random.default_rng(seed).integers(0, spread, 700)
    ranking.refresh_all()
    for which, row, total, count in moves:
        found = ranking.top_rows(count)
        assert found == np.argsort(-ranking.totals, kind="stable")[:count].tolist()
        top, ties = ranking.best()
        assert [ranking.pick(top, nth) for nth in range(ties)] == ranking.ties(top).tolist()
        if which == "many":
            rows = np.array(sorted({row, (row * 7) % 700, (row * 13) % 700}))
            ranking.totals[rows] = total
            ranking.refresh(rows)
        else:
            ranking.put(found[0] if which == "best" else row, total)
