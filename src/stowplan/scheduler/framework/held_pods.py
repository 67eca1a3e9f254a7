"""Pods that are kept out of the queue until an event, and pods whose deletion such an event is.

A thousand preemptors may wait for their victims while three thousand deletions come in. Each deletion
releases at most a few of them, so neither the queue nor the plugin scans all that wait: the plugin is
notified of the deletions it waits for, and the queue reads the releases since its last read.
"""

from collections.abc import Callable, Sequence
from typing import Final

from stowplan.api.pod import Pod

_REMEMBERED: Final = 4096


class HeldPods(set[str]):
    """Uids of pods that `pre_enqueue` is sure to reject, and those released lately.

    Change it by `hold` and `let_go` only.
    """

    __slots__ = ("_forgotten", "_let_go")

    def __init__(self) -> None:
        super().__init__()
        self._let_go: list[str] = []
        self._forgotten = 0

    def hold(self, uid: str) -> None:
        self.add(uid)

    def let_go(self, uid: str) -> None:
        if uid not in self:
            return
        self.discard(uid)
        self._let_go.append(uid)
        if len(self._let_go) > _REMEMBERED:
            self._forgotten += _REMEMBERED // 2
            del self._let_go[: _REMEMBERED // 2]

    @property
    def position(self) -> int:
        """Number of pods released so far: for `let_go_since`."""
        return self._forgotten + len(self._let_go)

    def let_go_since(self, position: int) -> Sequence[str] | None:
        """Pods released since a position, some of which may be held again; None if that was too long ago."""
        first = position - self._forgotten
        return None if first < 0 else self._let_go[first:]


def is_going(pod: Pod | None) -> bool:
    """True if a pod, as the informer knows it, is gone or terminating with a grace period.

    Without a grace period it is gone in a moment, and until then its place is taken.
    """
    return pod is None or (pod.is_terminating and pod.metadata.deletion_grace_period_seconds != 0)


class AwaitedDeletions:
    """Callbacks for the deletion of pods, by `namespace/name`."""

    def __init__(self) -> None:
        self._tell: dict[str, list[Callable[[], None]]] = {}

    def __bool__(self) -> bool:
        return bool(self._tell)

    def add(self, pod: str, tell: Callable[[], None]) -> None:
        """Tell once, as soon as the informer sees the pod going or gone (`is_going`)."""
        self._tell.setdefault(pod, []).append(tell)

    def remove(self, pod: str, tell: Callable[[], None]) -> None:
        """Do not tell after all."""
        waiting = self._tell.get(pod, [])
        if tell in waiting:
            waiting.remove(tell)
            if not waiting:
                del self._tell[pod]

    def seen(self, pod: str) -> None:
        """A pod is seen going or gone."""
        for tell in self._tell.pop(pod, ()):
            tell()
