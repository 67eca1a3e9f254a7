"""A profile of today in the making: plugins at extension points, their weights and arguments."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from stowplan.config.types import API_VERSION, ATTRIBUTES, KIND
from stowplan.framework.points import MULTI_POINT, Point
from stowplan.plugins.legacy.names import Use

PREEMPTION: Final = Use("DefaultPreemption", (Point.PRE_ENQUEUE, Point.POST_FILTER))
ALWAYS: Final = (
    Use("SchedulingGates", (Point.PRE_ENQUEUE,)),
    Use("PrioritySort", (Point.QUEUE_SORT,)),
    Use("DefaultBinder", (Point.BIND,)),
)
"""What was neither predicate nor priority, and is there in any case."""


class ProfileDocument:
    """Says exactly which plugins run where: what is not in a list does not run."""

    def __init__(self) -> None:
        self._lists: dict[Point, dict[str, int]] = {}
        self._disabled: dict[Point, list[str]] = {}
        self._everywhere: dict[str, int] = {}
        self._args: dict[str, dict[str, Any]] = {}

    def enable(self, use: Use, weight: int = 0) -> None:
        """Have a plugin run at its points, after those that are there; the first mention counts."""
        for point in use.points:
            self._lists.setdefault(point, {}).setdefault(use.plugin, weight if point.is_weighted else 0)
        if use.args:
            self.configure(use.plugin, use.args)

    def enable_all(self, uses: Iterable[Use], weight: int = 0) -> None:
        for use in uses:
            self.enable(use, weight)

    def enable_everywhere(self, plugin: str, weight: int) -> None:
        """Have a plugin run at every point it knows."""
        self._everywhere.setdefault(plugin, weight)

    def disable(self, plugin: str, point: Point) -> None:
        """Have a plugin that runs everywhere not run at a point."""
        self._disabled.setdefault(point, []).append(plugin)

    def configure(self, plugin: str, args: Mapping[str, Any]) -> None:
        """Add to the arguments of a plugin; lists grow, other values are set."""
        known = self._args.setdefault(plugin, {})
        for name, value in args.items():
            earlier = known.get(name)
            known[name] = [*earlier, *value] if isinstance(earlier, list) else value

    def uses(self, plugin: str, point: Point) -> bool:
        return plugin in self._lists.get(point, {}) or plugin in self._everywhere

    @property
    def plugins(self) -> frozenset[str]:
        """Every plugin that runs somewhere."""
        return frozenset(name for names in (*self._lists.values(), self._everywhere) for name in names)

    def args_of(self, plugin: str) -> Mapping[str, Any]:
        return self._args.get(plugin, {})

    def profile(self, scheduler_name: str) -> dict[str, Any]:
        """The profile as today's configuration writes it."""
        lists: dict[str, Any] = {
            section: plugin_set
            for section in ATTRIBUTES
            if section != MULTI_POINT and (plugin_set := self._section(Point(section)))
        }
        lists[MULTI_POINT] = {"disabled": [{"name": "*"}]}
        if self._everywhere:
            lists[MULTI_POINT]["enabled"] = [_entry(*one) for one in self._everywhere.items()]
        profile: dict[str, Any] = {"schedulerName": scheduler_name, "plugins": lists}
        if self._args:
            profile["pluginConfig"] = [
                {"name": name, "args": dict(self._args[name])} for name in sorted(self._args)
            ]
        return profile

    def _section(self, point: Point) -> dict[str, Any]:
        section: dict[str, Any] = {}
        if self._lists.get(point):
            section["enabled"] = [_entry(*one) for one in self._lists[point].items()]
        if self._disabled.get(point):
            section["disabled"] = [_entry(name, 0) for name in self._disabled[point]]
        return section


def _entry(name: str, weight: int) -> dict[str, Any]:
    return {"name": name, "weight": weight} if weight else {"name": name}


def configuration(profiles: list[dict[str, Any]], **others: Any) -> dict[str, Any]:
    """A whole configuration of today."""
    return {"apiVersion": API_VERSION, "kind": KIND, **others, "profiles": profiles}
