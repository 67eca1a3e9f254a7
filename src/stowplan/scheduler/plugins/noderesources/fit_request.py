"""The requests of a pod as NodeResourcesFit compares them with nodes, and the codes of those that fail."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from stowplan.scheduler.framework import Codes
from stowplan.scheduler.table.columns import BoolColumn, IntArray, ResourceLines, lines_of

# The lowest bits of a code: too many pods, a failing resource larger than the whole node. The rest says which
# requests fail: a bit for each where they are few, else the number of a set that was met before.
TOO_MANY_PODS, TOO_LARGE, _FIRST_REQUEST = 1, 2, 2
_MOST_BITS = 60

NOTHING_HELD: Mapping[int, int] = {}


class FitRequest:
    """The requests that a filter has to check, in the order in which they are reported.

    `lines`, `amounts` and `places` are those of resources that have a line; `places` are positions among all
    requests. No node has any of the others: their reasons, the same on every node, are `elsewhere`. Lines
    change as nodes come and go that offer a resource, so call `find_lines` before reading them.

    `devices_for` names resources that nodes without them may provide by devices: the filter passes there, and
    DynamicResources decides. `held` is the part of its requests that a pod which waits for a resize has on
    its node already: only the rest is left of `amounts`.
    """

    __slots__ = (
        "_amounts",
        "_numbers",
        "_sets",
        "devices_for",
        "elsewhere",
        "has_bits",
        "held",
        "held_lines",
        "lines",
        "listed",
        "missing",
        "names",
        "version",
        "wanted",
    )

    def __init__(
        self,
        wanted: Sequence[tuple[str, int]],
        devices_for: frozenset[str],
        held: Mapping[str, int] | None = None,
    ) -> None:
        self.wanted = tuple(wanted)
        self.held = held or {}
        self.held_lines: Mapping[int, int] = NOTHING_HELD
        self.devices_for = devices_for
        self.names = tuple(name for name, _ in wanted)
        self.has_bits = len(wanted) <= _MOST_BITS
        self.version = -1
        self._sets: list[tuple[int, ...]] = [()]
        self._numbers: dict[tuple[int, ...], int] = {(): 0}
        self.lines = lines_of(())
        self._amounts: IntArray | None = None
        self.listed: tuple[tuple[int, int, int, bool], ...] = ()
        self.missing: tuple[int, ...] = ()
        self.elsewhere = 0

    def find_lines(self, resources: ResourceLines) -> None:
        """Look up the lines of the resources, unless that has been done."""
        if self.version == resources.version:
            return
        self.version = resources.version
        found, missing = [], []
        held: dict[int, int] = {}
        for place, (name, amount) in enumerate(self.wanted):
            line = resources.find(name)
            if line is not None:
                mark = 1 << (_FIRST_REQUEST + place) if self.has_bits else place
                if self.held:
                    held[line] = self.held.get(name, 0)
                    amount -= held[line]
                found.append((line, amount, mark, name in self.devices_for))
            elif name not in self.devices_for:
                missing.append(place)
        self.lines = lines_of(tuple([line for line, _, _, _ in found]))
        self._amounts = None
        self.held_lines = held if held else NOTHING_HELD
        self.missing = tuple(missing)
        self.elsewhere = self.code_of(self.missing) | TOO_LARGE if missing else 0
        self.listed = tuple(found)

    @property
    def amounts(self) -> IntArray:
        """Requested amount of each line."""
        if self._amounts is None:
            self._amounts = np.array([amount for _, amount, _, _ in self.listed], dtype=np.int64)
        return self._amounts

    @property
    def by_devices(self) -> BoolColumn:
        """For each line, whether devices may answer the request, one below the other."""
        return np.array([by_devices for _, _, _, by_devices in self.listed], dtype=np.bool_)[:, None]

    @property
    def bits(self) -> IntArray:
        """Bit of each line in a code that has a bit for every request, one below the other."""
        return np.array([bit for _, _, bit, _ in self.listed], dtype=np.int64)[:, None]

    def code_of(self, places: tuple[int, ...]) -> int:
        """Part of a code for requests that fail, given their places in ascending order."""
        if self.has_bits:
            return sum(1 << (_FIRST_REQUEST + place) for place in places)
        number = self._numbers.get(places)
        if number is None:
            number = self._numbers[places] = len(self._sets)
            self._sets.append(places)
        return number << _FIRST_REQUEST

    def failing(self, code: int) -> Iterable[int]:
        """The places of the requests that fail according to a code."""
        if not self.has_bits:
            return self._sets[code >> _FIRST_REQUEST]
        return (place for place in range(len(self.wanted)) if code >> (_FIRST_REQUEST + place) & 1)

    def add_lacking(self, codes: Codes, lacking: BoolColumn, allocatable: IntArray) -> None:
        """Note in codes which requests each row cannot meet, and whether it never could."""
        if self.devices_for:
            lacking = lacking & ~(self.by_devices & (allocatable == 0))
        if not self.has_bits:
            self._add_sets(codes, lacking)
        if lacking.any():
            if self.has_bits:
                codes += (lacking * self.bits).sum(axis=0)
            codes[(lacking & (self._whole()[:, None] > allocatable)).any(axis=0)] |= TOO_LARGE
        if self.missing:
            codes |= self.elsewhere if self.has_bits else TOO_LARGE

    def _whole(self) -> IntArray:
        """Request of each line including the part that the pod has already."""
        if not self.held_lines:
            return self.amounts
        return self.amounts + np.array([self.held_lines[line] for line in self.lines.listed], dtype=np.int64)

    def _add_sets(self, codes: Codes, lacking: BoolColumn) -> None:
        """Codes for more requests than there are bits: rows that fail in the same requests are handled
        together."""
        packed = np.ascontiguousarray(np.packbits(lacking, axis=0).T)
        alike: dict[bytes, int] = {}
        for row, key in enumerate(map(bytes, packed)):
            code = alike.get(key)
            if code is None:
                marks = [self.listed[index][2] for index in np.flatnonzero(lacking[:, row]).tolist()]
                code = alike[key] = self.code_with_missing(marks)
            codes[row] |= code

    def code_with_missing(self, marks: Iterable[int]) -> int:
        """The code of rows that fail some of the requests in `listed`, by their marks there."""
        if self.has_bits:
            return sum(marks) | self.elsewhere
        code = self.code_of(tuple(sorted((*self.missing, *marks))))
        return code | TOO_LARGE if self.missing else code
