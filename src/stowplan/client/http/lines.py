"""Lines of a stream that comes in pieces: found without copying what follows them."""

from collections import deque


class Lines:
    """Pieces go in, whole lines come out. Only a line that lies across pieces is put together."""

    __slots__ = ("_at", "_begun", "_whole", "size")

    def __init__(self) -> None:
        self._whole: deque[bytes] = deque()
        """Pieces that end with the end of a line."""
        self._at = 0
        self._begun: list[bytes] = []
        """The beginning of a line whose end has not come."""
        self.size = 0
        """Bytes that wait."""

    def __bool__(self) -> bool:
        return bool(self._whole)

    def feed(self, piece: bytes) -> None:
        self.size += len(piece)
        end = piece.rfind(b"\n") + 1
        if not end:
            self._begun.append(piece)
            return
        if self._begun:
            first = piece.find(b"\n") + 1
            self._whole.append(b"".join((*self._begun, piece[:first])))
            self._begun.clear()
            if first < end:
                self._whole.append(piece[first:end])
        else:
            self._whole.append(piece if end == len(piece) else piece[:end])
        if end < len(piece):
            self._begun.append(piece[end:])

    def next(self) -> memoryview | None:
        """The next whole line, None if there is none yet. It is gone from here."""
        if not self._whole:
            return None
        piece, at = self._whole[0], self._at
        end = piece.find(b"\n", at)
        if end + 1 == len(piece):
            self._whole.popleft()
            self._at = 0
        else:
            self._at = end + 1
        self.size -= end + 1 - at
        return memoryview(piece)[at:end]
