"""Counts by a small integer (a row, a domain): a dict while few are non-zero, an array once many are."""

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]

# Past this many non-zero entries the array is both smaller and faster.
DENSE_FROM = 48


# How many changes are remembered one by one.
_REMEMBERED = 512


class Counts:
    """index → count. `version` grows by one with every change, and recent changes can be asked for."""

    __slots__ = ("_dense", "_recent", "_sparse", "total", "version")

    def __init__(self) -> None:
        self._sparse: dict[int, int] | None = {}
        self._dense: IntArray | None = None
        self._recent: list[int] = []
        self.total = 0
        self.version = 0

    def add(self, index: int, delta: int) -> None:
        self.version += 1
        self.total += delta
        recent = self._recent
        recent.append(index)
        if len(recent) > _REMEMBERED:
            del recent[: _REMEMBERED // 2]
        sparse = self._sparse
        if sparse is None:
            self._add_dense(index, delta)
            return
        count = sparse.get(index, 0) + delta
        if count:
            sparse[index] = count
            if len(sparse) > DENSE_FROM:
                self._densify()
        else:
            sparse.pop(index, None)

    def changed_since(self, version: int) -> list[int] | None:
        """The indexes whose count changed since a version, None if that is too long ago to say."""
        length = self.version - version
        recent = self._recent
        if length > len(recent):
            return None
        return recent[len(recent) - length :]

    def clear(self) -> None:
        self._sparse, self._dense = {}, None
        self._recent = []
        self.total = 0
        self.version += 1

    def fill(self, values: IntArray) -> None:
        """Replace everything by the counts of an array indexed alike."""
        self._sparse, self._dense = None, values
        self._recent = []
        self.total = int(values.sum())
        self.version += 1

    @property
    def few(self) -> dict[int, int] | None:
        """The counts by index while they are few, not to be changed; None: they are many."""
        return self._sparse

    def get(self, index: int) -> int:
        if self._sparse is not None:
            return self._sparse.get(index, 0)
        dense = self._dense
        assert dense is not None
        return int(dense[index]) if index < len(dense) else 0

    def add_into(self, target: IntArray, weight: int = 1) -> None:
        """Add `weight` times every count to `target`, which is at least as long as the highest index."""
        if self._sparse is not None:
            for index, count in self._sparse.items():
                target[index] += weight * count
            return
        dense = self._dense
        assert dense is not None
        length = min(len(dense), len(target))
        if weight == 1:
            target[:length] += dense[:length]
        else:
            target[:length] += weight * dense[:length]

    def at(self, rows: npt.NDArray[np.intp] | slice, size: int) -> IntArray:
        """The counts of some of `size` indexes."""
        dense = self._dense
        if dense is None or len(dense) < size:
            dense = self.to_array(size)
            if self._sparse is None:
                self._dense = dense
        result: IntArray = dense[rows]
        return result

    def to_array(self, size: int) -> IntArray:
        """A fresh array of `size` counts."""
        result = np.zeros(size, dtype=np.int64)
        self.add_into(result)
        return result

    def _densify(self) -> None:
        sparse = self._sparse
        assert sparse is not None
        dense = np.zeros(max(64, 2 * (max(sparse) + 1)), dtype=np.int64)
        for index, count in sparse.items():
            dense[index] = count
        self._sparse, self._dense = None, dense

    def _add_dense(self, index: int, delta: int) -> None:
        dense = self._dense
        assert dense is not None
        if index >= len(dense):
            grown = np.zeros(2 * (index + 1), dtype=np.int64)
            grown[: len(dense)] = dense
            self._dense = dense = grown
        dense[index] += delta
        if not self.total:
            self._sparse, self._dense = {}, None
