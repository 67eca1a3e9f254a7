"""While groups of terms linger, pods that carry a term come and go, and are counted as ever."""

from random import Random

import pytest

from scheduler.plugins.answers import verdicts
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.testing import Cluster, cluster, node, pod

HOSTNAME = "kubernetes.io/hostname"


def world() -> Cluster:
    nodes = [node(f"n{number}").labels({HOSTNAME: f"n{number}"}) for number in range(3)]
    return cluster(nodes=nodes, pods=[pod("there").labels(app="a").on("n0")])


@pytest.mark.parametrize("seed", range(20))
def test_verdicts_are_the_same_and_nothing_is_left_behind(seed: int) -> None:
    rng = Random(seed)
    lingering, plain = world(), world()
    standing: list[list[PodInfo]] = [[], []]
    with lingering.table.term_groups.lingering():
        for step in range(12):
            row, app = rng.randrange(3), rng.choice("ab")
            goes = bool(standing[0]) and rng.random() < 0.5
            place = rng.randrange(len(standing[0])) if goes else 0
            for one, here in zip((lingering, plain), standing, strict=True):
                if goes:
                    one.table.take_off(here.pop(place))
                    continue
                carrying = pod(f"p{step}").anti_affinity(HOSTNAME, {"app": app}).labels(app=app)
                info = one.table.info(carrying.obj())
                one.table.put_on(info, row)
                here.append(info)
            for app in "abc":
                asking = pod("asking").labels(app=app)
                assert verdicts(lingering, asking) == verdicts(plain, asking)
        for one, here in zip((lingering, plain), standing, strict=True):
            while here:
                one.table.take_off(here.pop())
    assert lingering.table.sizes()["label pairs a term group needs"] == 0
