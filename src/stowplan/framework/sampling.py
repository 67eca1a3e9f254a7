"""How many feasible nodes are enough before scoring starts."""

from typing import Final

MIN_NODES: Final = 100
MIN_PERCENTAGE: Final = 5


def nodes_to_find(nodes: int, percentage: int | None = None, default_percentage: int = 0) -> int:
    """The number of feasible nodes to stop at, out of `nodes`.

    `percentage` is the profile's setting; where it has none, the scheduler-wide `default_percentage` holds.
    0 per cent means adaptive: 50 % of a small cluster, falling by 1 % per 125 nodes to 5 %.
    """
    if nodes < MIN_NODES:
        return nodes
    share = default_percentage if percentage is None else percentage
    if share == 0:
        share = max(50 - nodes // 125, MIN_PERCENTAGE)
    return max(nodes * share // 100, MIN_NODES)
