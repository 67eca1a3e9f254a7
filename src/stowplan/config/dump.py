"""Writing a configuration out, as `kube-scheduler --write-config-to` does."""

from collections.abc import Mapping
from typing import Any

import yaml

from stowplan.config.schema import CONFIGURATION, PLUGIN_ARGS
from stowplan.config.types import API_VERSION, KIND, SchedulerConfig
from stowplan.config.yamlscalars import is_plain_text
from stowplan.plugins.args import PluginArgs

_NO_WRAPPING = 2**31 - 1


class _Dumper(yaml.SafeDumper):
    """Quotes text that would otherwise be read as something else the way Kubernetes tools do."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None if is_plain_text(text) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _represent_text)


def dump(config: SchedulerConfig) -> dict[str, Any]:
    """A completed configuration as plain data for JSON or YAML."""
    data: dict[str, Any] = CONFIGURATION.encode(config)
    data |= {"apiVersion": API_VERSION, "kind": KIND}
    data.setdefault("percentageOfNodesToScore", 0)
    for profile in data["profiles"] or ():
        for entry in profile.get("pluginConfig", ()):
            entry["args"] = _dump_args(entry["args"])
    return data


def dump_yaml(config: SchedulerConfig) -> str:
    """A completed configuration as YAML."""
    return dump_document(dump(config))


def dump_document(document: Mapping[str, Any]) -> str:
    """A configuration that is plain data already as YAML."""
    return yaml.dump(
        dict(document), Dumper=_Dumper, allow_unicode=True, default_flow_style=False, width=_NO_WRAPPING
    )


def _dump_args(args: Any) -> Any:
    """Typed arguments with their kind; others as they are."""
    if not isinstance(args, PluginArgs):
        return args
    kind = type(args).__name__
    return {"apiVersion": API_VERSION, "kind": kind, **PLUGIN_ARGS[kind].encode(args)}
