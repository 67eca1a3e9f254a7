"""A lower bound for the price of nodes on which pods fit: an integer program, solved by HiGHS.

Whole nodes are bought; pods may be split, share the room of all nodes of a type, and ignore each other. So no
nodes on which the scheduler can place all pods are cheaper. HiGHS comes with the extra `plan`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from math import inf
from typing import Any, Final, NamedTuple

_SECONDS: Final = 20.0
"""The solver ends then, with the bound that it has proved so far."""
_FEW: Final = (1, 2, 3, 4)
"""Of pods that request more than 1/(n+1) of a node it takes n at most; the sums alone would allow more."""


class Room(NamedTuple):
    """Identical nodes: what each offers by resource, which parts of a mix it may take, and their number.

    `price` is that of one node; nodes that exist already cost nothing, and there are `most` of them.
    """

    offer: Mapping[str, int]
    takes: Sequence[bool]
    price: float = 0.0
    most: float = inf
    exists: bool = False


@dataclass(frozen=True, slots=True)
class Bound:
    """The least price, and the nodes with that price; without any if nothing is enough (price: infinity)."""

    price: float
    counts: tuple[int, ...] = ()


def is_available() -> bool:
    """True if HiGHS is installed."""
    return find_spec("highspy") is not None


def least_price(
    rooms: Sequence[Room], requests: Sequence[Mapping[str, int]], counts: Sequence[int]
) -> Bound | None:
    """The bound for `counts` pods of every part, which have `requests`; None if HiGHS is not installed."""
    if not is_available():
        return None
    return _Program(rooms, requests, counts).solved()


class _Program:
    def __init__(
        self, rooms: Sequence[Room], requests: Sequence[Mapping[str, int]], counts: Sequence[int]
    ) -> None:
        self._types: Any = import_module("highspy")
        self._model = self._types.Highs()
        self._model.setOptionValue("output_flag", False)
        self._model.setOptionValue("time_limit", _SECONDS)
        self._columns = 0
        self._scale = {
            name: float(max((room.offer.get(name, 0) for room in rooms), default=0)) or 1.0
            for part in requests
            for name in part
        }
        self._bought: list[int] = []
        self._rooms = rooms
        self._requests = requests
        placed: list[list[int]] = [[] for _ in requests]
        for room in rooms:
            self._add(room, placed)
        for columns, count in zip(placed, counts, strict=True):
            self._row(float(count), inf, dict.fromkeys(columns, 1.0))

    def _add(self, room: Room, placed: list[list[int]]) -> None:
        """The variables of a kind of nodes: their number, and the pods of every part on them."""
        number = None if room.exists else self._column(room.most, room.price, whole=True)
        if number is not None:
            self._bought.append(number)
        here: dict[int, Mapping[str, int]] = {}
        for place, request in enumerate(self._requests):
            each = min(
                (room.offer.get(name, 0) // amount for name, amount in request.items() if amount), default=0
            )
            if not room.takes[place] or each < 1:
                continue
            column = self._column(inf if number is not None else each * room.most, 0.0)
            placed[place].append(column)
            here[column] = request
            if number is not None:
                self._row(-inf, 0.0, {column: 1.0, number: -float(each)})
        for name in {name for request in here.values() for name in request}:
            scale = self._scale[name]
            row = {column: request[name] / scale for column, request in here.items() if request.get(name)}
            offered = room.offer.get(name, 0) / scale
            self._at_most(room, number, row, offered)
            for few in _FEW:
                least = room.offer.get(name, 0) / (few + 1)
                large = [column for column, request in here.items() if request.get(name, 0) > least]
                self._at_most(room, number, dict.fromkeys(large, 1.0), float(few))

    def _at_most(self, room: Room, number: int | None, row: Mapping[int, float], each: float) -> None:
        """Limit a sum to so much on each node of a kind."""
        if number is None:
            self._row(-inf, each * room.most, row)
        else:
            self._row(-inf, 0.0, {**row, number: -each})

    def _column(self, most: float, price: float, *, whole: bool = False) -> int:
        column, self._columns = self._columns, self._columns + 1
        self._model.addVar(0.0, most)
        self._model.changeColCost(column, price)
        if whole:
            self._model.changeColIntegrality(column, self._types.HighsVarType.kInteger)
        return column

    def _row(self, least: float, most: float, values: Mapping[int, float]) -> None:
        self._model.addRow(least, most, len(values), list(values), list(values.values()))

    def solved(self) -> Bound:
        self._model.run()
        status, kinds = self._model.getModelStatus(), self._types.HighsModelStatus
        if status in (kinds.kInfeasible, kinds.kUnboundedOrInfeasible):
            return Bound(inf)
        info = self._model.getInfo()
        if not self._bought:
            return Bound(0.0)
        price = max(float(info.mip_dual_bound), 0.0)
        values = self._model.getSolution().col_value
        counts = tuple(round(values[column]) for column in self._bought) if values else ()
        return Bound(price, counts)
