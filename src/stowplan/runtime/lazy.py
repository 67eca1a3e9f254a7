"""Modules that are loaded when something of them is used for the first time.

For parts that most processes never need and that take long to load, as the compiler of expressions. Whoever
uses one imports it for the type checker and makes it lazily otherwise:

    if TYPE_CHECKING:
        from stowplan.api.cel import devices as cel
    else:
        cel = lazy_module("stowplan.api.cel.devices")
"""

import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.util import LazyLoader, find_spec, module_from_spec
from types import ModuleType
from typing import Any


def lazy_module(name: str) -> ModuleType:
    """A module that runs at the first access to an attribute. The packages it is in are loaded at once."""
    loaded = sys.modules.get(name)
    if loaded is not None:
        return loaded
    spec = find_spec(name)
    if spec is None or spec.loader is None:
        return import_module(name)
    spec.loader = LazyLoader(spec.loader)
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def lazy_attribute(package: str, name: str, modules: Mapping[str, str]) -> Any:
    """A public name of a package, imported from its module on first use: for the package's `__getattr__`."""
    if name not in modules:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    return getattr(import_module(f"{package}.{modules[name]}"), name)
