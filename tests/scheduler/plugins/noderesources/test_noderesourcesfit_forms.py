"""NodeResourcesFit answers the same in all its forms: many rows, one row, with nominated pods, left over."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from stowplan.framework import SUCCESS, Status, unresolvable, unschedulable
from stowplan.scheduler.plugins.noderesources import NodeResourcesFit
from stowplan.testing import cluster, node, pod

FEW, MANY = 3, 70
"""Requests that have a bit each in a code, and too many for that."""

Amounts = list[int]


class Case(NamedTuple):
    """Amounts of some resources: of two nodes, of the pods on them, of a nominated pod, of the pod itself.

    No node has the `missing` resources that the pod asks for besides.
    """

    offered: tuple[Amounts, Amounts]
    taken: tuple[Amounts, Amounts]
    nominated: Amounts
    wanted: Amounts
    missing: int


def cases(resources: int) -> st.SearchStrategy[Case]:
    def amounts(least: int, most: int) -> st.SearchStrategy[Amounts]:
        return st.lists(st.integers(least, most), min_size=resources, max_size=resources)

    return st.builds(
        Case,
        st.tuples(amounts(2, 4), amounts(2, 4)),
        st.tuples(amounts(0, 1), amounts(0, 1)),
        amounts(0, 1),
        st.integers(0, 5).flatmap(lambda most: amounts(0, most)),
        st.integers(0, 2),
    )


def named(amounts: Amounts) -> dict[str, int]:
    return {f"example.com/r{number:02}": amount for number, amount in enumerate(amounts)}


def expected(case: Case, place: int, *, with_nominated: bool) -> Status:
    """The rule, resource by resource."""
    lacking, too_large = [], case.missing > 0
    extra = case.nominated if with_nominated else [0] * len(case.wanted)
    amounts = zip(case.wanted, case.offered[place], case.taken[place], extra, strict=True)
    for number, (wanted, offered, taken, more) in enumerate(amounts):
        if wanted and wanted > offered - taken - more:
            lacking.append(f"Insufficient example.com/r{number:02}")
            too_large |= wanted > offered
    lacking += [f"Insufficient example.com/x{number}" for number in range(case.missing)]
    if not lacking:
        return SUCCESS
    return unresolvable(*lacking) if too_large else unschedulable(*lacking)


@pytest.mark.parametrize("resources", [FEW, MANY])
def test_all_forms_agree_with_the_rule(resources: int) -> None:
    @settings(max_examples=examples(60), deadline=None)
    @given(cases(resources))
    def agree(case: Case) -> None:
        check(case)

    agree()


def check(case: Case) -> None:
    nodes = [node(name).capacity(named(offered)) for name, offered in zip("ab", case.offered, strict=True)]
    pods = [
        pod(f"on-{name}").requests(named(taken)).on(name)
        for name, taken in zip("ab", case.taken, strict=True)
    ]
    other = pod("nominated").requests(named(case.nominated)).on("elsewhere")
    world = cluster(
        nodes=[*nodes, node("elsewhere").capacity(named([9] * len(case.wanted)))], pods=[*pods, other]
    )
    nowhere = {f"example.com/x{number}": 1 for number in range(case.missing)}
    cycle = world.evaluate(pod("p").requests({**named(case.wanted), **nowhere})).cycle
    table, info = world.table, cycle.pod
    nominated = table.pods[other.obj().metadata.uid]
    fit = next(
        p for p in world.frameworks["default-scheduler"].plugins.values() if isinstance(p, NodeResourcesFit)
    )

    def said(code: int) -> Status:
        return fit.reason(cycle, info, code) if code else SUCCESS

    rows = np.array([table.row_of("a"), table.row_of("b")], dtype=np.intp)
    found = fit.filter(cycle, info, table.all_rows())
    columns = [0] * len(rows) if found is None else found[rows].tolist()
    left_over = fit.codes_for(cycle, rows, fit.left_over(cycle, rows)).tolist()
    for place, row in enumerate(rows.tolist()):
        status = expected(case, place, with_nominated=False)
        assert said(columns[place]) == status
        assert said(fit.filter_row(cycle, info, row)) == status
        assert said(left_over[place]) == status
        assert said(fit.filter_row_with_pods(cycle, info, row, [nominated])) == expected(
            case, place, with_nominated=True
        )
