"""From options to profiles that can run, and writing the configuration out."""

from dataclasses import dataclass

from stowplan.cluster.table import ClusterTable
from stowplan.config import BuiltConfig, ConfigError, build
from stowplan.config.dump import dump_yaml
from stowplan.framework.registry import Registry, installed_plugins, load_plugin
from stowplan.framework.runtime import Framework
from stowplan.framework.status import ProfileError
from stowplan.gocompat.quoting import path_error
from stowplan.logs import Journal
from stowplan.plugins.catalog import IN_TREE_POINTS
from stowplan.plugins.registry import in_tree_registry
from stowplan.run.options import Options


@dataclass(frozen=True, slots=True)
class Prepared:
    """The plugins there are, and the configuration resolved with them."""

    registry: Registry
    built: BuiltConfig

    @property
    def text(self) -> str:
        """The complete configuration as YAML."""
        return dump_yaml(self.built.config)


def prepare(options: Options) -> Prepared:
    """Resolve the profiles, with every plugin made once to see that it can be. Raises ConfigError."""
    gates = options.loaded.gates
    try:
        registry = in_tree_registry().with_plugins([*installed_plugins(), *map(load_plugin, options.plugins)])
    except ProfileError as error:
        raise ConfigError("build", str(error)) from None
    built = build(options.loaded, {**IN_TREE_POINTS, **registry.offered})
    for profile in built.profiles:
        try:
            Framework(profile, ClusterTable(), registry, gates)
        except ProfileError as error:
            where = f"initializing profiles: creating profile for scheduler name {profile.scheduler_name}"
            raise ConfigError("build", f"{where}: {error}") from None
    return Prepared(registry, built)


def write_config(prepared: Prepared, path: str, journal: Journal) -> None:
    """Write the complete configuration to a file. Raises ConfigError."""
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(prepared.text)
    except OSError as error:
        raise ConfigError("write", path_error(error, path)) from None
    journal.info(0, "Wrote configuration", file=path)
