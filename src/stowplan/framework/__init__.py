"""The one import of a plugin: base class, contract, protocols, statuses, events, views of pods and nodes.

Things that few plugins need are in `stowplan.framework.advanced`.
"""

import warnings
from typing import TYPE_CHECKING, Any

from stowplan.scheduler.framework import *  # noqa: F403
from stowplan.scheduler.framework import __all__ as __all__
from stowplan.scheduler.framework import advanced as _moved

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Names that were here up to version 0.1 and are in `advanced` now."""
        if name not in _moved.__all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        warnings.warn(f"import {name} from stowplan.framework.advanced", DeprecationWarning, stacklevel=2)
        return getattr(_moved, name)
