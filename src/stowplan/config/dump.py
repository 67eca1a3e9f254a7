"""Writing a configuration out, as `kube-scheduler --write-config-to` does."""

from typing import Any

from stowplan.api.releases import NEWEST
from stowplan.config.schema import PLUGIN_ARGS, configuration
from stowplan.config.types import API_VERSION, KIND, SchedulerConfig
from stowplan.gocompat.yamltext import to_yaml
from stowplan.scheduler.framework.plugin_args import shown_args
from stowplan.scheduler.plugins.args import PluginArgs

_PLAIN = (dict, list, str, int, float)
"""Arguments of plugins without a type for them, as they were written."""


def dump(config: SchedulerConfig) -> dict[str, Any]:
    """A completed configuration as plain data for JSON or YAML, with the fields of its release."""
    data = _dump_set(config)
    data.setdefault("percentageOfNodesToScore", 0)
    return data


def dump_yaml(config: SchedulerConfig) -> str:
    """A completed configuration as YAML."""
    return to_yaml(dump(config))


def dump_to_load_again(config: SchedulerConfig) -> str:
    """A completed configuration as YAML that means the same when it is loaded.

    A percentage of nodes that is not set is left out: written as 0 it would be one.
    """
    return to_yaml(_dump_set(config))


def _dump_set(config: SchedulerConfig) -> dict[str, Any]:
    data: dict[str, Any] = configuration(NEWEST).encode(config)
    data |= {"apiVersion": API_VERSION, "kind": KIND}
    for profile in data["profiles"] or ():
        for entry in profile.get("pluginConfig", ()):
            entry["args"] = _dump_args(entry["args"])
    return data


def _dump_args(args: Any) -> Any:
    """Typed arguments with their kind; others as they are."""
    if isinstance(args, PluginArgs):
        kind = type(args).__name__
        fields = PLUGIN_ARGS[kind].encode(args) if kind in PLUGIN_ARGS else shown_args(args)
        return {"apiVersion": API_VERSION, "kind": kind} | _without_type(fields)
    return args if args is None or isinstance(args, _PLAIN) else shown_args(args)


def _without_type(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in ("apiVersion", "kind")}
