"""Simulated kubelets: nodes that report ready, and pods that seem to run on them.

One `Kubelets` object stands for all nodes of a cluster, thousands if need be.
"""

from stowplan.localcluster.kubelets.config import (
    KubeletSettings,
    NodeShape,
    ShapeError,
    named_nodes,
    read_shapes,
)
from stowplan.localcluster.kubelets.kubelets import Kubelets
from stowplan.localcluster.kubelets.pretend import Pretend, PretendError, read_pretend

__all__ = [
    "KubeletSettings",
    "Kubelets",
    "NodeShape",
    "Pretend",
    "PretendError",
    "ShapeError",
    "named_nodes",
    "read_pretend",
    "read_shapes",
]
