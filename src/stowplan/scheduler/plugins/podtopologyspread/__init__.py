"""PodTopologySpread: pods of a group stay evenly spread over zones, hosts or any other labelled domain."""

from stowplan.scheduler.plugins.podtopologyspread.plugin import PodTopologySpread

__all__ = ["PodTopologySpread"]
