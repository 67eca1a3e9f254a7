"""Container images present on nodes."""

from collections.abc import Iterable

from stowplan.api.node import ContainerImage


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
        for image in images:
            for name in image.names:
                state = self.states.get(name)
                if state is None:
                    state = self.states[name] = ImageState(image.size_bytes)
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
