"""Pods that get labels while they are being bound: most often nobody who counts pods can tell.

An API server gives a pod the zone and the region of its node when it is bound. Taking the pod off its row and
putting it back would have everything about the row worked out anew, for every pod that is bound.
"""

from stowplan.cluster.podinfo import PodTemplate

_FACT = "counted like"


def counted_alike(old: PodTemplate, new: PodTemplate) -> bool:
    """Whether pods of two templates take the same of a node and are chosen by the same selectors."""
    kept = old.facts.get(_FACT)
    if isinstance(kept, _Kept) and kept.holds_for(old, new):
        return kept.verdict
    verdict = (
        old.taken == new.taken
        and old.accounted.non_zero_milli_cpu == new.accounted.non_zero_milli_cpu
        and old.accounted.non_zero_memory == new.accounted.non_zero_memory
        and old.ports == new.ports
        and old.groups == new.groups
        and not old.volumes
        and not new.volumes
        and {id(matcher) for matcher in old.kind.matchers} == {id(matcher) for matcher in new.kind.matchers}
    )
    old.facts[_FACT] = _Kept(old, new, verdict)
    return verdict


class _Kept:
    """A verdict, and what it rests on."""

    __slots__ = ("_new", "_versions", "verdict")

    def __init__(self, old: PodTemplate, new: PodTemplate, verdict: bool) -> None:
        self._new = new
        self._versions = (old.kind.version, new.kind.version)
        self.verdict = verdict

    def holds_for(self, old: PodTemplate, new: PodTemplate) -> bool:
        return self._new is new and self._versions == (old.kind.version, new.kind.version)
