"""Number of feasible nodes after which Filter stops."""

import pytest

from stowplan.scheduler.node_sampler import nodes_to_find


@pytest.mark.parametrize(("nodes", "enough"), [(99, 99), (100, 100), (1000, 420), (5000, 500), (10000, 500)])
def test_enough_feasible_nodes(nodes: int, enough: int) -> None:
    assert nodes_to_find(nodes) == enough
