"""Plugin classes by name: those of the tree, and those loaded from files, modules and entry points."""

import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from stowplan.scheduler.framework import protocols
from stowplan.scheduler.framework.interface import ExtensionPoint, Handle, Plugin, points_of
from stowplan.scheduler.framework.plugin_args import decode_args
from stowplan.scheduler.framework.profile import ProfileSpec
from stowplan.scheduler.framework.status import ProfileError


class Registry:
    """The classes a profile can be built from: in-tree ones, and others.

    `on_request` are our plugins that kube-scheduler does not have (any more). They are available to a
    configuration that names them, and yield to an out-of-tree plugin of the same name.
    """

    def __init__(
        self, in_tree: Mapping[str, type[Plugin]], on_request: Mapping[str, type[Plugin]] | None = None
    ) -> None:
        self.in_tree = frozenset(in_tree)
        self._classes: dict[str, type[Plugin]] = dict(in_tree)
        self._on_request: dict[str, type[Plugin]] = dict(on_request or {})

    def add(self, cls: type[Plugin]) -> None:
        """Make a plugin known under its name. Raises ProfileError for a class that cannot be one."""
        checked(getattr(cls, "__qualname__", repr(cls)), cls)
        if cls.name in self._classes:
            raise ProfileError(f"a plugin named {cls.name} already exists")
        self._on_request.pop(cls.name, None)
        self._classes[cls.name] = cls

    def get(self, name: str) -> type[Plugin] | None:
        """The class of a name, if there is one."""
        return self._classes.get(name) or self._on_request.get(name)

    @property
    def own(self) -> frozenset[str]:
        """Plugins that are part of this project."""
        return self.in_tree | self._on_request.keys()

    @property
    def added(self) -> dict[str, frozenset[ExtensionPoint]]:
        """Plugins from outside the tree and the extension points they take part in."""
        return {name: points_of(cls) for name, cls in self._classes.items() if name not in self.in_tree}

    @property
    def offered(self) -> dict[str, frozenset[ExtensionPoint]]:
        """Plugins a configuration can name besides in-tree ones, and their extension points."""
        return {**{name: points_of(cls) for name, cls in self._on_request.items()}, **self.added}

    def with_plugins(self, classes: Iterable[type[Plugin]]) -> "Registry":
        """A copy that knows more plugins."""
        copy = Registry({name: self._classes[name] for name in self.in_tree}, self._on_request)
        for cls in (*(c for n, c in self._classes.items() if n not in self.in_tree), *classes):
            copy.add(cls)
        return copy

    def instantiate(self, profile: ProfileSpec, handle: Handle) -> dict[str, Plugin]:
        """One plugin object per name a profile uses. In-tree names that have no class yet are left out."""
        names = {use.name: None for uses in profile.plugins.values() for use in uses}
        plugins: dict[str, Plugin] = {}
        for name in names:
            cls = self.get(name)
            if cls is not None:
                plugins[name] = self._make(cls, profile.args.get(name), handle)
        return plugins

    @staticmethod
    def _make(cls: type[Plugin], args: Any, handle: Handle) -> Plugin:
        if cls.args_type is not None:
            args = decode_args(cls.name, cls.args_type, args)
        try:
            return cls(args, handle)
        except ProfileError as error:
            raise ProfileError(f'initializing plugin "{cls.name}": {error}') from None
        except Exception as error:
            raise ProfileError(
                f'initializing plugin "{cls.name}": {type(error).__name__}: {error}'
            ) from error


ENTRY_POINT_GROUP = "stowplan.plugins"


PIN = "@sha256:"
"""Between a reference and the digest that its file has to have."""


def load_plugin(reference: str) -> type[Plugin]:
    """The plugin class that `module:Class` or `path/to/file.py:Class` names.

    `path/to/file.py:Class@sha256:DIGEST` is pinned: a file with other contents is refused before it is run.
    """
    unpinned, pin, digest = reference.partition(PIN)
    place, separator, name = unpinned.rpartition(":")
    if not separator or not place or not name:
        raise ProfileError(f"plugin {reference!r}: expected module:Class or file.py:Class")
    if not place.endswith(".py"):
        if pin:
            raise ProfileError(f"plugin {reference!r}: expected a file before {PIN}, pip pins packages")
        module = _import(reference, place)
    else:
        module = _import_file(reference, Path(place), digest if pin else None)
    found = getattr(module, name, None)
    if found is None:
        raise ProfileError(f"plugin {reference!r}: {place} has no {name}")
    return checked(reference, found)


def plugin_files(references: Iterable[str]) -> tuple[str, ...]:
    """The files among some references: what is read again when it changes."""
    places = (reference.partition(PIN)[0].rpartition(":")[0] for reference in references)
    return tuple(dict.fromkeys(place for place in places if place.endswith(".py")))


def installed_plugins() -> list[type[Plugin]]:
    """Plugins that installed packages offer."""
    return [_installed(point) for point in entry_points(group=ENTRY_POINT_GROUP)]


def _installed(point: EntryPoint) -> type[Plugin]:
    package = point.dist.name if point.dist is not None else point.module
    reference = f"{point.value} of package {package}"
    try:
        found = point.load()
    except (Exception, SystemExit) as error:
        raise ProfileError(f"plugin {reference!r}: cannot import {point.module}: {_told(error)}") from error
    return checked(reference, found)


def checked(reference: str, found: object) -> type[Plugin]:
    """Refuse what is not a plugin, or takes part in nothing, before it is ever run."""
    if not isinstance(found, type) or not issubclass(found, Plugin):
        raise ProfileError(f"plugin {reference!r}: expected a subclass of stowplan.framework.Plugin")
    if not points_of(found):
        raise ProfileError(f"plugin {reference!r}: has no method of any extension point")
    if hasattr(found, "filter") and found.reason is Plugin.reason:
        raise ProfileError(f"plugin {reference!r}: filter needs reason(self, cycle, pod, code)")
    _check_signatures(reference, found)
    return found


def _check_signatures(reference: str, cls: type[Plugin]) -> None:
    """Refuse methods that could not be called with what the scheduler hands to them."""
    for name, wanted in _signatures().items():
        method = getattr(cls, name, None)
        if method is None or not inspect.isfunction(method):
            continue
        found = inspect.signature(method)
        try:
            found.bind(*wanted)
        except TypeError:
            asked = ", ".join(wanted)
            raise ProfileError(f"plugin {reference!r}: {name}{found}: expected {name}({asked})") from None
        if inspect.iscoroutinefunction(method) and name not in _MAY_WAIT:
            raise ProfileError(f"plugin {reference!r}: async def {name}: expected def, it cannot wait")


_MAY_WAIT = frozenset(("pre_bind", "bind", "post_bind"))
"""Methods of the binding cycle, which may be coroutines."""


@cache
def _signatures() -> dict[str, tuple[str, ...]]:
    """The parameters of every method that a plugin may have, `self` first."""
    return {
        name: tuple(inspect.signature(method).parameters)
        for protocol in vars(protocols).values()
        if isinstance(protocol, type) and protocol.__module__ == protocols.__name__
        for name, method in vars(protocol).items()
        if inspect.isfunction(method) and not name.startswith("_")
    }


def _import(reference: str, name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise ProfileError(f"plugin {reference!r}: cannot import {name}: {_told(error)}") from error


def _import_file(reference: str, path: Path, digest: str | None) -> ModuleType:
    """Run what was read and compared, and nothing that was compiled from it earlier."""
    try:
        source = path.read_bytes()
    except OSError as error:
        raise ProfileError(f"plugin {reference!r}: cannot read {path}: {error.strerror}") from None
    if digest is not None:
        found = hashlib.sha256(source).hexdigest()
        if found != digest:
            raise ProfileError(f"plugin {reference!r}: {path} has sha256:{found}")
    name = f"stowplan_plugin_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        exec(compile(source, path, "exec"), module.__dict__)
    except (Exception, SystemExit) as error:
        raise ProfileError(f"plugin {reference!r}: cannot import {path}: {_told(error)}") from error
    return module


def _told(error: BaseException) -> str:
    """An error in one line."""
    lines = str(error).splitlines()
    name = type(error).__name__
    return f"{name}: {lines[0]}" if lines else name
