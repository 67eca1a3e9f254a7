"""State of nodes besides resources: container images, and the host ports of their pods."""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from stowplan.api.node import ContainerImage
from stowplan.api.pod import HostPort

Scores = npt.NDArray[np.int64]

_FEW: Final = 64
_SPARSE: Final = 32
"""An image counts as common if more than one row in this many has it, unless those are very few."""


class ImageState:
    """One image name: its size as first seen, and the rows that have it.

    Many rows are flags, of a byte each, and few are a set. A set of many takes forty times as much, and those
    of all images that every node has would grow with the same node, which holds the event loop.
    """

    __slots__ = ("_few", "count", "flags", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.count = 0
        """Number of rows that have it."""
        self.flags: bytearray | None = None
        self._few: set[int] = set()

    def add(self, row: int) -> None:
        flags = self.flags
        if flags is None:
            few = self._few
            few.add(row)
            self.count = count = len(few)
            if count > _FEW and count * _SPARSE > row:
                self._become_flags()
            return
        missing = row + 1 - len(flags)
        if missing > 0:
            flags.extend(bytes(max(missing, len(flags))))
        self.count += 1 - flags[row]
        flags[row] = 1

    def discard(self, row: int) -> None:
        flags = self.flags
        if flags is None:
            self._few.discard(row)
            self.count = len(self._few)
        elif row < len(flags):
            self.count -= flags[row]
            flags[row] = 0

    def add_to(self, sums: Scores, amount: int) -> None:
        """Add an amount in the rows that have it."""
        if self.flags is None:
            sums[list(self._few)] += amount
        else:
            has_it = np.frombuffer(self.flags, dtype=np.uint8)[: len(sums)]
            sums[: len(has_it)] += has_it * np.int64(amount)

    def _become_flags(self) -> None:
        self.flags = flags = bytearray(2 * max(self._few))
        for row in self._few:
            flags[row] = 1
        self._few = set()


class ImageIndex:
    """Image name → where it is. `version` changes with any change."""

    __slots__ = ("states", "version")

    def __init__(self) -> None:
        self.states: dict[str, ImageState] = {}
        self.version = 0

    def add(self, row: int, images: Sequence[ContainerImage]) -> None:
        states = self.states
        find = states.get
        for image in images:
            for name in image.names:
                state = find(name)
                if state is None:
                    state = states[name] = ImageState(image.size_bytes)
                flags = state.flags
                if flags is None or row >= len(flags):
                    state.add(row)
                elif not flags[row]:
                    flags[row] = 1
                    state.count += 1
        self.version += bool(images)

    def remove(self, row: int, images: Sequence[ContainerImage]) -> None:
        for image in images:
            for name in image.names:
                state = self.states.get(name)
                if state is None:
                    continue
                state.discard(row)
                if not state.count:
                    del self.states[name]
        self.version += bool(images)


ANY_IP = "0.0.0.0"


class HostPortIndex:
    """(protocol, port) → IP → row → how many pods there use it."""

    __slots__ = ("_users",)

    def __init__(self) -> None:
        self._users: dict[tuple[str, int], dict[str, dict[int, int]]] = {}

    def sizes(self) -> dict[str, int]:
        return {"host ports": len(self._users)}

    def add(self, row: int, ports: Iterable[HostPort], delta: int) -> None:
        for protocol, ip, port in ports:
            by_ip = self._users.setdefault((protocol, port), {})
            rows = by_ip.setdefault(ip, {})
            count = rows.get(row, 0) + delta
            if count:
                rows[row] = count
                continue
            rows.pop(row, None)
            if not rows:
                del by_ip[ip]
                if not by_ip:
                    del self._users[protocol, port]

    def conflicting_rows(self, wanted: Iterable[HostPort]) -> set[int]:
        """Rows on which at least one wanted port is taken.

        A port wanted on all addresses clashes with any use of it; one wanted on a single address clashes
        with its use there and with a use on all addresses.
        """
        rows: set[int] = set()
        for protocol, ip, port in wanted:
            by_ip = self._users.get((protocol, port))
            if not by_ip:
                continue
            if ip == ANY_IP:
                for users in by_ip.values():
                    rows.update(users)
            else:
                rows.update(by_ip.get(ip, ()))
                rows.update(by_ip.get(ANY_IP, ()))
        return rows
