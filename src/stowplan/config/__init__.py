"""KubeSchedulerConfiguration: reading, completing, checking and resolving it.

The way of a file through this package:

* `load`: the entrance, `load(text)` and `load_file(path)`; raises `ConfigError` (`errors`)
* `document`: which kind of object it is, strict decoding, plugin arguments
* `jsontext`, `yamljson` (on `yamlnodes` and `yamlscalars`): text to JSON values (`tree`)
* `schema`: every field and its type; `gotypes`, `gocontainers`, `decode`: how types are read and written
* `types`: the result
* `defaults`, `merge`: what is left out is filled in; plugin lists are merged with the default ones
* `validation`: values are checked
* `build`: extenders and profiles are resolved, ready for use (`default_profile()` for the stock one)
* `dump`: writing a configuration out; `gates`: feature gates from a command line

This is for v1. What earlier releases had becomes a document of v1 first:

* `policy`: Policies and algorithm providers; `old`: the versions before v1, and the entrance for all of them
* `fields`: reading them strictly; `heritage`: what they say that v1 cannot; `migrate`: the document as text
"""

from stowplan.config.build import BuiltConfig, build, default_profile
from stowplan.config.errors import ConfigError
from stowplan.config.load import LoadedConfig, default_config, load, load_file

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
