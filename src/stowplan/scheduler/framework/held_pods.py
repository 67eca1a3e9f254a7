"""Pods that are kept out of the queue until something is done, and pods whose deletion somebody waits for.

A thousand preemptors may wait for their victims while three thousand deletions come in. Each deletion lets at
most a few of them go, so neither the queue nor the plugin looks at all who wait: the plugin is told of the
deletions it waits for, and the queue asks who was let go since it last asked.
"""

from collections.abc import Callable, Sequence
from typing import Final

from stowplan.api.pod import Pod

_REMEMBERED: Final = 4096


class HeldPods(set[str]):
    """Uids of pods that `pre_enqueue` is sure to reject, and who was let go lately.

    It is changed by `hold` and `let_go` only.
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
        """How many were let go so far: for `let_go_since`."""
        return self._forgotten + len(self._let_go)

    def let_go_since(self, position: int) -> Sequence[str] | None:
        """Who was let go since, some of whom may be held again; None if that was too long ago to tell."""
        first = position - self._forgotten
        return None if first < 0 else self._let_go[first:]


def is_going(pod: Pod | None) -> bool:
    """Whether a pod, as the informer knows it, is gone or has begun to go for a while.

    One that has no time to go is not: it is gone in a moment, and until then its place is taken.
    """
    return pod is None or (pod.is_terminating and pod.metadata.deletion_grace_period_seconds != 0)


class AwaitedDeletions:
    """Pods whose deletion somebody waits for, by `namespace/name`, and whom to tell."""

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
