"""The best row is found as if by looking at all of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.framework.ranking import INFEASIBLE, Ranking

rewrites = st.lists(
    st.tuples(
        st.lists(st.integers(0, 1023), min_size=1, max_size=8), st.integers(INFEASIBLE, 3), st.booleans()
    ),
    min_size=1,
    max_size=25,
)


@pytest.mark.parametrize("capacity", [64, 256, 1024])
@given(rewrites)
def test_best_ties_and_picks_are_those_of_a_plain_search(
    capacity: int, changes: list[tuple[list[int], int, bool]]
) -> None:
    ranking, plain = Ranking(capacity), np.full(capacity, INFEASIBLE)
    for rows, total, everything in changes:
        rows = [row % capacity for row in rows]
        plain[rows] = ranking.totals[rows] = total
        if everything:
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
