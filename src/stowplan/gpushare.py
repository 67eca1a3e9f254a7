"""Plugins that share GPUs, under the path that `--plugin` names: code is in `stowplan.contrib.gpushare`."""

from stowplan.contrib.gpushare import *  # noqa: F403
from stowplan.contrib.gpushare import __all__ as __all__
