"""Pretend kubelets: nodes that say they are there, and pods that seem to run on them.

One `Kubelets` object stands for all nodes of a cluster, thousands if need be.
"""

from stowplan.embedded.kubelets.kubelets import Kubelets
from stowplan.embedded.kubelets.settings import KubeletSettings
from stowplan.embedded.kubelets.shapes import Shape, ShapeError, named_nodes, read_shapes

__all__ = ["KubeletSettings", "Kubelets", "Shape", "ShapeError", "named_nodes", "read_shapes"]
