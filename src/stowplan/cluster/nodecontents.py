"""What nodes have and hold besides resources: container images, and the host ports of their pods."""

from collections.abc import Iterable

from stowplan.api.node import ContainerImage
from stowplan.api.pod import HostPort


class ImageState:
    """One image name: its size as first seen, and the rows that have it."""

    __slots__ = ("rows", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.rows: set[int] = set()


class ImageIndex:
    """Image name → where it is. `version` changes with any change."""

    __slots__ = ("states", "version")

    def __init__(self) -> None:
        self.states: dict[str, ImageState] = {}
        self.version = 0

    def add(self, row: int, images: Iterable[ContainerImage]) -> None:
        states = self.states
        find = states.get
        for image in images:
            for name in image.names:
                state = find(name)
                if state is None:
                    state = states[name] = ImageState(image.size_bytes)
                state.rows.add(row)
                self.version += 1

    def remove(self, row: int, images: Iterable[ContainerImage]) -> None:
        for image in images:
            for name in image.names:
                state = self.states.get(name)
                if state is None:
                    continue
                state.rows.discard(row)
                self.version += 1
                if not state.rows:
                    del self.states[name]


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
