"""The best row is found as if by looking at all of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.scheduler.framework.reuse.ranking import INFEASIBLE, Ranking

rewrites = st.lists(
    st.tuples(
        st.lists(st.integers(0, 1023), min_size=1, max_size=8),
        st.integers(INFEASIBLE, 3),
        st.sampled_from(("all", "some", "one by one")),
    ),
    min_size=1,
    max_size=25,
)


@pytest.mark.parametrize("capacity", [64, 256, 1024])
@given(rewrites)
def test_best_ties_and_picks_are_those_of_a_plain_search(
    capacity: int, changes: list[tuple[list[int], int, str]]
) -> None:
    ranking, plain = Ranking(capacity), np.full(capacity, INFEASIBLE)
    for rows, total, way in changes:
        rows = [row % capacity for row in rows]
        plain[rows] = total
        if way == "one by one":
            for row in rows:
                ranking.put(row, total)
        else:
            ranking.totals[rows] = total
            if way == "all":
                ranking.refresh_all()
            else:
                ranking.refresh(np.array(rows))
        top = int(plain.max())
        tied = np.flatnonzero(plain == top).tolist()
        if top == INFEASIBLE:
            continue
        assert ranking.best() == (top, len(tied))
        assert ranking.ties(top).tolist() == tied
        assert sorted(ranking.pick(top, nth) for nth in range(len(tied))) == tied
