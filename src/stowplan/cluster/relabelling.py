"""Pods that get labels while they are being bound: most often nobody who counts pods can tell.

An API server gives a pod the zone and the region of its node when it is bound. Taking the pod off its row and
putting it back would have everything about the row worked out anew, for every pod that is bound.
"""

from typing import Final

from stowplan.cluster.podinfo import PodTemplate

_MOST: Final = 64
"""For so many templates a verdict is kept: those of one template in all zones of a large cluster."""


def counted_alike(old: PodTemplate, new: PodTemplate) -> bool:
    """Whether pods of two templates take the same of a node and are chosen by the same selectors.

    A verdict is kept for as long as nothing else chooses the one or the other.
    """
    versions = (old.kind.version, new.kind.version)
    known = old.counted_like
    kept = known.get(new)
    if kept is not None and kept[0] == versions:
        return kept[1]
    verdict = (
        old.accounted == new.accounted
        and old.ports == new.ports
        and old.terms.terms == new.terms.terms
        and not old.volumes
        and not new.volumes
        and {id(matcher) for matcher in old.kind.matchers} == {id(matcher) for matcher in new.kind.matchers}
    )
    if len(known) >= _MOST:
        known.clear()
    known[new] = (versions, verdict)
    return verdict
