"""Forks of a cluster in memory: changes are recorded with how to undo them.

A fork costs nothing when it begins. One that ends without `commit` undoes its own changes in reverse order;
random choices and numbers of new pods are then as before, too.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

Undo = Callable[[], object]
"""Must not record changes itself: a fork around the one that ends would undo them once more."""


class UndoLog:
    """The changes since the forks that are open began. `rngs` are set back with them."""

    def __init__(self, rngs: Sequence[Random]) -> None:
        self._rngs = rngs
        self._changes: list[Undo] = []
        self._forks = 0
        self._number = 0

    @property
    def is_recording(self) -> bool:
        """True if a fork is open: without one nothing can be undone."""
        return self._forks > 0

    def note(self, undo: Undo) -> None:
        """Something was changed: how to undo it."""
        if self._forks:
            self._changes.append(undo)

    def set(self, mapping: dict[str, Any], key: str, value: Any) -> None:
        """Set or (None) remove an entry of one of the cluster's own maps."""
        old = mapping.get(key)
        if value is None:
            mapping.pop(key, None)
        else:
            mapping[key] = value
        if self._forks and old is not value:
            self._changes.append(
                lambda: mapping.pop(key, None) if old is None else mapping.update({key: old})
            )

    def next_number(self) -> int:
        """A number that no change before has; a fork that is undone gives its numbers back."""
        self._number += 1
        return self._number

    @contextmanager
    def fork(self) -> Iterator[None]:
        """Undo at the end of the block what is changed in it, unless it was committed. Forks can nest."""
        mark, number = len(self._changes), self._number
        states = [rng.getstate() for rng in self._rngs]
        self._forks += 1
        try:
            yield
        finally:
            self._forks -= 1
            if len(self._changes) > mark:
                self._revert_to(mark)
                self._number = number
                for rng, state in zip(self._rngs, states, strict=True):
                    rng.setstate(state)

    def commit(self) -> None:
        """Keep what was changed in all forks that are open."""
        self._changes.clear()

    def revert(self) -> None:
        """Undo everything that was changed in the forks that are open."""
        self._revert_to(0)

    def _revert_to(self, mark: int) -> None:
        while len(self._changes) > mark:
            self._changes.pop()()
