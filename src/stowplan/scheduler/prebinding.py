"""Pods in PreBind, which may take long: until it is over they can still be made to give up their place."""

import asyncio


class PreBindingPods:
    """The PreBind work under way, by the pods' uids."""

    def __init__(self) -> None:
        self._work: dict[str, asyncio.Task[object]] = {}
        self._cancelled: dict[str, str] = {}

    def add(self, uid: str, work: "asyncio.Task[object]") -> None:
        self._work[uid] = work

    def remove(self, uid: str) -> str | None:
        """The work is over; returns why it was cancelled, None if it was not."""
        self._work.pop(uid, None)
        return self._cancelled.pop(uid, None)

    def __contains__(self, uid: str) -> bool:
        return uid in self._work

    def cancel(self, uid: str, why: str) -> bool:
        """Have a pod give up. False if it is too late for that."""
        work = self._work.get(uid)
        if work is None or uid in self._cancelled:
            return False
        self._cancelled[uid] = why
        work.cancel(why)
        return True
