"""Import paths that docs named up to version 0.1 and that have moved: they still work, with a warning.

A finder in front of Python's own gives the module under its present path, so nothing is loaded twice. Former
paths leave no file behind: the tree of packages stays what it is.
"""

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from importlib.abc import Loader, MetaPathFinder
else:
    # As bases they are of no use, and importing them takes longer than all else of `stowplan --help`.
    Loader = MetaPathFinder = object

FORMER: Final = {
    "stowplan.clock": "stowplan.runtime.clock",
    "stowplan.embedded": "stowplan.localcluster",
    "stowplan.extenders": "stowplan.scheduler.extenders",
    "stowplan.recording": "stowplan.scheduler.recording",
    "stowplan.releases": "stowplan.api.releases",
}
"""Packages by their former path."""


def keep_former_paths() -> None:
    """Have imports of former paths find the modules that are there now."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package = ".".join(fullname.split(".", 2)[:2])
        if package not in FORMER:
            return None
        present = FORMER[package] + fullname.removeprefix(package)
        warnings.warn(f"{fullname} is {present} now", DeprecationWarning, stacklevel=2)
        return ModuleSpec(fullname, _Moved(present))


class _Moved(Loader):
    def __init__(self, present: str) -> None:
        self._present = present

    def create_module(self, spec: ModuleSpec) -> None:
        """The import system makes the module."""

    def exec_module(self, module: ModuleType) -> None:
        # The import system takes what is in sys.modules when this returns.
        sys.modules[module.__name__] = import_module(self._present)
