"""KubeSchedulerConfiguration: reading, defaulting, validating and resolving it.

A file passes through these modules:

* `load`: the entry points `load(text)` and `load_file(path)`: strict decoding; raises `ConfigError`
* `types`, `schema`: the configuration as structs, and every field with its Go type
* `defaults`: what is left out is filled in; plugin lists are merged with the default ones
* `validation`: values are checked
* `build`: extenders (`extendertls`) and profiles are resolved, ready for use

Next to them: `dump` writes a configuration out, `emulation` reads `--emulated-version`, `legacy` loads what
earlier releases had (versions before v1, Policies, algorithm providers), and `upgrade` writes that as v1.
Imports the plugins that it configures, but no running scheduler. Begin with `load`.
"""

from stowplan.config.build import BuiltConfig, build, default_profile
from stowplan.config.load import ConfigError, LoadedConfig, default_config, load, load_file

__all__ = [
    "BuiltConfig",
    "ConfigError",
    "LoadedConfig",
    "build",
    "default_config",
    "default_profile",
    "load",
    "load_file",
]
