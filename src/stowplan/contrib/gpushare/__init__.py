"""GPUs shared by pods, as in the literature: a filter that knows single GPUs, and policies to place pods.

Pods ask with annotations, nodes offer with a resource and a label, both named as in Alibaba's GPU sharing
and the simulators built on it (`devices.py` has the names). `GpuShare` filters, and decides which GPUs a pod
gets; one of the policies scores: `FGD`, `BestFit`, `DotProd`, `GpuPacking`, `GpuClustering`, `Random`. All of
them are written against the public plugin interface and loaded as any other plugin:
`--plugin stowplan.gpushare:GpuShare --plugin stowplan.gpushare:FGD`.
"""

from stowplan.contrib.gpushare.fragmentation import FGD, TypicalPod, typical_pods
from stowplan.contrib.gpushare.plugin import GpuShare
from stowplan.contrib.gpushare.policies import BestFit, DotProd, GpuClustering, GpuPacking, RandomNode

POLICIES = {policy.name: policy for policy in (RandomNode, DotProd, GpuClustering, GpuPacking, BestFit, FGD)}
"""The policies by the names that the literature has for them."""

__all__ = [
    "FGD",
    "POLICIES",
    "BestFit",
    "DotProd",
    "GpuClustering",
    "GpuPacking",
    "GpuShare",
    "RandomNode",
    "TypicalPod",
    "typical_pods",
]
