"""NearJob: PreScore and Score. A pod goes where the pods of another job are: to their zone, or their node.

The annotation `example.com/near` names the job. PreScore counts its pods by node and zone once per pod; Score
looks the counts up for every node.

Run it: python examples/near_job.py
"""

from collections import Counter

from stowplan.framework import SKIP, Plugin

NEAR = "example.com/near"
JOB = "batch.kubernetes.io/job-name"
ZONE = "topology.kubernetes.io/zone"


class NearJob(Plugin):
    def pre_score(self, cycle, pod):
        job = pod.annotations.get(NEAR)
        if job is None:
            return SKIP
        table = self.handle.table
        nodes, zones = Counter(), Counter()
        for other in table.pods.values():
            # Pods of a deleted node are known until they are deleted, too.
            node = table.nodes[other.row] if other.row >= 0 else None
            if node is not None and other.namespace == pod.namespace and other.labels.get(JOB) == job:
                nodes[other.row] += 1
                zones[node.metadata.labels.get(ZONE)] += 1
        cycle.write_score(self, (nodes, zones))
        return None

    def score_node(self, cycle, pod, node):
        nodes, zones = cycle.read_score(self)
        return 2 * nodes[node.row] + zones[node.labels.get(ZONE)]

    def normalize(self, cycle, pod, scores, extremes):
        low, high = extremes
        return 100 * (scores - low) // max(high - low, 1)


def main():
    from stowplan.testing import cluster, node, pod

    def worker(name, on):
        return pod(name).labels({JOB: "etl"}).on(on)

    c = cluster(
        nodes=[node(f"{zone}{n}").labels({ZONE: zone}) for zone in "abc" for n in range(2)],
        pods=[worker("etl-0", "b0"), worker("etl-1", "b0"), worker("etl-2", "c1")],
        plugins=[NearJob],
    )
    decision = c.decide(pod("report").annotations({NEAR: "etl"}))
    for candidate in decision.best:
        print(candidate.node, candidate.scores["NearJob"])


if __name__ == "__main__":
    main()
