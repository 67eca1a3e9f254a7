"""GpuPacking: a plugin by column. Pods with GPUs go where the fewest GPUs are left over.

All nodes are scored in one NumPy expression. `reads` and `sign` allow results to be reused: a score changes
only where pods or allocatable resources change, and pods that request the same number of GPUs share it.

Run it: python examples/gpu_packing.py
"""

import numpy as np

from stowplan.framework import Contract, Plugin, Reads

GPU = "nvidia.com/gpu"


class GpuPacking(Plugin):
    contract = Contract(reads=Reads.USAGE)

    def sign(self, pod):
        return pod.requests.scalars.get(GPU, 0)

    def score(self, cycle, pod, nodes):
        wanted = pod.requests.scalars.get(GPU, 0)
        if not wanted:
            return None
        total = nodes.allocatable(GPU)
        left = np.maximum(total - nodes.requested(GPU) - wanted, 0)
        return 100 - 100 * left // np.maximum(total, 1)


def main():
    from stowplan.testing import cluster, node, pod

    c = cluster(
        nodes=[node(f"gpu-{n}").capacity({"cpu": "64", GPU: "8"}) for n in range(3)],
        pods=[
            pod("a").requests({GPU: "5"}).on("gpu-0"),
            pod("b").requests({GPU: "6"}).on("gpu-1"),
        ],
        plugins=[GpuPacking],
    )
    for name, gpus in (("small", "2"), ("medium", "3"), ("large", "8")):
        decision = c.schedule(pod(name).requests({"cpu": "1", GPU: gpus}))
        print(f"{name}, {gpus} GPUs: {decision.node}")


if __name__ == "__main__":
    main()
