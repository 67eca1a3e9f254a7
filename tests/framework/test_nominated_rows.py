"""Nominations that are handed on from attempt to attempt say the same as if each were looked at anew."""

from hypothesis import given
from hypothesis import strategies as st

from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.table import ClusterTable
from stowplan.framework.nominations import NominatedRows, rows_with_nominated_pods
from stowplan.testing import pod

_TABLE = ClusterTable()
_PODS = [_TABLE.info(pod(f"p{number}").priority(number % 3).obj()) for number in range(8)]
_CHANGES = st.lists(
    st.dictionaries(st.integers(0, 4), st.sets(st.integers(0, 7), max_size=3), max_size=3), max_size=8
)


@given(_CHANGES, st.lists(st.integers(0, 7), min_size=8, max_size=8))
def test_nominations_that_change_count_as_new_ones_do(
    changes: list[dict[int, set[int]]], asking: list[int]
) -> None:
    nominated, plain = NominatedRows(), dict[int, list[PodInfo]]()
    before: list[tuple[NominatedRows, dict[int, list[PodInfo]]]] = []
    for change, asks in zip(changes, asking, strict=False):
        moved = {number for numbers in change.values() for number in numbers}
        rows = {row: [p for p in pods if _PODS.index(p) not in moved] for row, pods in plain.items()}
        taken: set[int] = set()
        for row, numbers in change.items():
            rows[row] = [_PODS[number] for number in sorted(numbers - taken)]
            taken |= numbers
        changed = {row: pods for row, pods in rows.items() if plain.get(row, []) != pods}
        plain = {row: pods for row, pods in rows.items() if pods}
        nominated = nominated.replaced(changed)
        before.append((nominated, plain))
        assert nominated == plain
        assert nominated.beside(_PODS[asks]) == rows_with_nominated_pods(plain, _PODS[asks])
    for kept, then in before:
        for one in _PODS:
            assert kept.beside(one) == rows_with_nominated_pods(then, one)
