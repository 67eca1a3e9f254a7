"""An experiment: the same 2,000 pods placed by two scoring strategies."""

from stowplan.simulate import Cluster
from stowplan.testing import node, pod

PACK = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - {name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}
"""


def main():
    nodes = [node(f"n{i}").capacity(cpu="32", memory="128Gi", pods="110").obj() for i in range(300)]
    pods = [pod(f"p{i}").requests(cpu=f"{1 + i % 4}", memory="4Gi").obj() for i in range(2000)]
    for name, config in (("least allocated", None), ("most allocated", PACK)):
        placed = Cluster(nodes, config=config, seed=1).schedule(pods).placed
        print(f"{name}: {len(placed)} pods on {len(set(placed.values()))} nodes")


if __name__ == "__main__":
    main()
