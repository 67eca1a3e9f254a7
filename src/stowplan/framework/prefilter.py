"""Asking one PreFilter plugin."""

from typing import Any

from stowplan.framework.cycle import Cycle
from stowplan.framework.errors import PluginError
from stowplan.framework.plugin import Plugin, PreFilterResult
from stowplan.framework.status import Code, Status

PreFilterAnswer = Status | PreFilterResult | None
_ANSWERS = (Status, PreFilterResult)


def ask_pre_filter(plugin: Plugin, cycle: Cycle) -> PreFilterAnswer:
    """What a PreFilter plugin says of the pod. Raises PluginError if it fails or answers nonsense."""
    watch = cycle.watch
    began = 0.0 if watch is None else watch.timer()
    try:
        answer: Any = plugin.pre_filter(cycle, cycle.pod)  # type: ignore[attr-defined]
    except PluginError:
        raise
    except Exception as cause:
        raise _failure(plugin, f"{type(cause).__name__}: {cause}") from cause
    if answer is None or isinstance(answer, _ANSWERS):
        if watch is not None:
            code = answer.code if isinstance(answer, Status) else Code.SUCCESS
            watch.plugin(plugin.name, "PreFilter", code.label, watch.timer() - began)
        return answer
    raise _failure(plugin, f"expected a Status, a PreFilterResult or None, got {type(answer).__name__}")


def _failure(plugin: Plugin, message: str) -> PluginError:
    return PluginError(plugin.name, f'running PreFilter plugin "{plugin.name}": {message}')
