"""Sizes of containers inside an object, by path."""

from collections import deque

import numpy as np

from stowplan.testing.objectsizes import grown, sizes_of


class Part:
    __slots__ = ("rows",)

    def __init__(self) -> None:
        self.rows = np.zeros((3, 4))


class Whole:
    def __init__(self) -> None:
        self.parts = {"a": Part(), "b": Part()}
        self.log = deque([1, 2, 3])
        self.itself = self
        hidden = [1] * 7
        self.callback = lambda: hidden
        self.method = deque([Part()]).append


def test_every_container_is_found_under_its_path() -> None:
    sizes = sizes_of(Whole())
    assert sizes["parts"] == 2
    assert sizes["parts[].rows"] == 24
    assert sizes["log"] == 3


def test_what_a_closure_holds_is_found() -> None:
    assert sizes_of(Whole())["callback()"] == 7


def test_objects_and_types_can_be_left_out() -> None:
    whole = Whole()
    assert "log" not in sizes_of(whole, without=[whole.log])
    assert "parts[].rows" not in sizes_of(whole, without_types=(Part,))


def test_growth_is_told_by_path_the_largest_first() -> None:
    before = {"a": 1, "b": 10, "c": 5}
    after = {"a": 200, "b": 11, "c": 5, "d": 500}
    assert list(grown(before, after, slack=50).items()) == [("d", (0, 500)), ("a", (1, 200))]
