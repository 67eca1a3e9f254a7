"""InterPodAffinity: pods near to or away from other pods, as asked for by either side."""

from stowplan.scheduler.plugins.interpodaffinity.plugin import InterPodAffinity

__all__ = ["InterPodAffinity"]
