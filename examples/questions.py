"""Questions to a cluster in memory: try, look, keep it or take it back."""

from stowplan.simulate import Cluster
from stowplan.testing import node, pod


def main():
    nodes = [node(f"n{i}").capacity(cpu="4", memory="16Gi", pods="20").zone("abc"[i % 3]) for i in range(6)]
    web = [pod(f"web-{i}").requests(cpu="1").owned_by("ReplicaSet", "web").on(f"n{i % 6}") for i in range(12)]
    cluster = Cluster([one.obj() for one in (*nodes, *web)], seed=1)

    with cluster.fork():
        outcome = cluster.drain("n0", "n1")
        print(f"drained: {len(outcome.moved)} pods move, {len(outcome.pending)} stay pending")
    with cluster.fork():
        outcome = cluster.scale("replicaset/web", 30)
        print(f"scaled to 30: {len(outcome.placed)} more fit; {next(iter(outcome.pending.values()))}")
    with cluster.fork():
        cluster.cordon("n5")
        cluster.commit()
    print(f"now {len(cluster.placements)} pods, n5 is cordoned: {cluster.node('n5').spec.unschedulable}")


if __name__ == "__main__":
    main()
