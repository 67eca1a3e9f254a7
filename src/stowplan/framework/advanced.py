"""Imports that few plugins need: reuse in detail, preemption, groups of pods, explanations, long searches."""

from stowplan.scheduler.framework.advanced import *  # noqa: F403
from stowplan.scheduler.framework.advanced import __all__ as __all__
