"""Nominations that are handed on from attempt to attempt say the same as if each were looked at anew."""

from hypothesis import given
from hypothesis import strategies as st

from stowplan.config import default_profile
from stowplan.scheduler.framework.nominations import NominatedRows, rows_with_nominated_pods
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.plugins.registry import in_tree_registry
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.table import ClusterTable
from stowplan.testing import node, pod

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


_ROOM = ["2", "2", "3"]
_STEPS = st.lists(
    st.tuples(
        st.sampled_from(("nominate", "place", "remove", "ask", "ask")), st.integers(0, 2), st.integers(0, 5)
    ),
    max_size=25,
)


@given(_STEPS)
def test_verdicts_beside_nominated_pods_are_kept_as_long_as_they_hold(
    steps: list[tuple[str, int, int]],
) -> None:
    table = ClusterTable()
    for number, cpu in enumerate(_ROOM):
        table.put_node(node(f"n{number}").capacity(cpu=cpu).obj())
    spec, registry = default_profile(), in_tree_registry()
    keeping = Framework(spec, table, registry)
    waiting = [table.info(pod(f"w{n}").requests(cpu="1").priority(n % 2).obj()) for n in range(6)]
    nominated, placed = NominatedRows(), dict[str, None]()
    for what, where, which in (("nominate", 0, 0), ("ask", 0, 2), *steps, ("ask", 0, 2)):
        row = table.row_of(f"n{where}")
        assert row is not None
        if what == "nominate":
            others = [one for one in nominated.get(row, ()) if one is not waiting[which]]
            pods = others if len(others) < len(nominated.get(row, ())) else [*others, waiting[which]]
            elsewhere = {
                other: [one for one in there if one is not waiting[which]]
                for other, there in nominated.items()
                if waiting[which] in there
            }
            nominated = nominated.replaced({**elsewhere, row: pods})
        elif what == "place":
            name = f"p{len(placed)}-{where}-{which}"
            placed[table.put_pod(pod(name).requests(cpu="1").on(f"n{where}").obj()).uid] = None
        elif what == "remove" and placed:
            table.remove_pod(placed.popitem()[0])
        else:
            asks = waiting[which]
            kept = keeping.run_filters(asks, nominated)
            found = {table.name_of(row): kept.status(row) for row in range(len(_ROOM))}
            anew = Framework(spec, table, registry, reuse=False).run_filters(asks, dict(nominated))
            assert found == {table.name_of(row): anew.status(row) for row in range(len(_ROOM))}
