"""Simulated kubelets: nodes that report ready, and pods that seem to run on them.

One `Kubelets` object stands for all nodes of a cluster, thousands if need be.
"""

from stowplan.embedded.kubelets.config import KubeletSettings, Shape, ShapeError, named_nodes, read_shapes
from stowplan.embedded.kubelets.kubelets import Kubelets

__all__ = ["KubeletSettings", "Kubelets", "Shape", "ShapeError", "named_nodes", "read_shapes"]
