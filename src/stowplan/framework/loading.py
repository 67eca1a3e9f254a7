"""Finding plugins outside the tree: by `module:Class`, by `file.py:Class`, or by Python entry point."""

import importlib
import importlib.util
import sys
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

from stowplan.framework.errors import ProfileError
from stowplan.framework.plugin import Plugin, points_of

ENTRY_POINT_GROUP = "stowplan.plugins"


def load_plugin(reference: str) -> type[Plugin]:
    """The plugin class that `module:Class` or `path/to/file.py:Class` names."""
    place, separator, name = reference.rpartition(":")
    if not separator or not place or not name:
        raise ProfileError(f"plugin {reference!r}: expected module:Class or file.py:Class")
    module = _import_file(reference, Path(place)) if place.endswith(".py") else _import(reference, place)
    found = getattr(module, name, None)
    if found is None:
        raise ProfileError(f"plugin {reference!r}: {place} has no {name}")
    return checked(reference, found)


def installed_plugins() -> list[type[Plugin]]:
    """Plugins that installed packages offer."""
    return [checked(point.value, point.load()) for point in entry_points(group=ENTRY_POINT_GROUP)]


def checked(reference: str, found: object) -> type[Plugin]:
    """Refuse what is not a plugin, or takes part in nothing, before it is ever run."""
    if not isinstance(found, type) or not issubclass(found, Plugin):
        raise ProfileError(f"plugin {reference!r}: expected a subclass of stowplan.framework.plugin.Plugin")
    if not points_of(found):
        raise ProfileError(f"plugin {reference!r}: has no method of any extension point")
    return found


def _import(reference: str, name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise ProfileError(f"plugin {reference!r}: cannot import {name}: {_told(error)}") from error


def _import_file(reference: str, path: Path) -> ModuleType:
    name = f"stowplan_plugin_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ProfileError(f"plugin {reference!r}: cannot read {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ProfileError(f"plugin {reference!r}: cannot import {path}: {_told(error)}") from error
    return module


def _told(error: Exception) -> str:
    """An error in one line."""
    lines = str(error).splitlines()
    name = type(error).__name__
    return f"{name}: {lines[0]}" if lines else name
