"""Loading a configuration: text or file in, a complete and valid configuration out.

The text is decoded strictly (format, kind, fields, plugin arguments), defaults are filled in, and the values
are validated. Whatever is wrong is a `ConfigError`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from stowplan.api.fielderrors import ConfigError as ConfigError
from stowplan.api.fielderrors import aggregate
from stowplan.api.gates.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.api.releases import DEFAULT, Release
from stowplan.config.defaults import complete
from stowplan.config.schema import PLUGIN_ARGS, kinds
from stowplan.config.types import GROUP, KIND, PluginConfig, Profile, SchedulerConfig
from stowplan.config.validation import validate
from stowplan.gocompat.jsontext import (
    ObjectNode,
    TextError,
    Tree,
    as_json,
    float_text,
    kind_of,
    looks_like_json,
    parse_json,
    to_python,
)
from stowplan.gocompat.numbers import fits_int64
from stowplan.gocompat.quoting import path_error, quote
from stowplan.gocompat.types import DocumentError, StrictDocumentError, StructOf, decode_strictly
from stowplan.gocompat.yamltext import yaml_to_json

_V1 = "v1"
_SCHEME = '"pkg/scheduler/apis/config/scheme/scheme.go:29"'
_TYPE_META = (
    r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
)
_NO_TYPE_META = "couldn't get version/kind; json parse error: "


@dataclass(frozen=True, slots=True)
class LegacySettings:
    """Settings of an earlier release's configuration that v1 cannot express; empty for v1.

    `notes` are lines about settings without an exact equivalent, and their replacements. `old_names` has the
    priority that a score plugin stands for. With `all_reasons` a pod that fits nowhere gets every reason of a
    node, not only the first. `lock` is the object for leader election if it is not a Lease. `policy_file` is
    the path of the Policy that the configuration refers to.
    """

    notes: tuple[str, ...] = ()
    old_names: Mapping[str, str] = field(default_factory=dict)
    all_reasons: bool = False
    lock: str = ""
    policy_file: str = ""


NO_LEGACY_SETTINGS: Final = LegacySettings()


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A complete, valid configuration and the feature gates it was read under.

    `legacy` has what came with it if it was written for an earlier release.
    """

    config: SchedulerConfig
    gates: FeatureGates = DEFAULT_GATES
    legacy: LegacySettings = NO_LEGACY_SETTINGS


Change = Callable[[SchedulerConfig], SchedulerConfig]
"""Overrides by flags: applied once the configuration has its defaults, before it is validated."""


MOST_BYTES: Final = 64 << 20
"""Size of a file. A device such as /dev/zero has no end."""


def no_change(config: SchedulerConfig) -> SchedulerConfig:
    """No overrides."""
    return config


def load(text: str | bytes, gates: FeatureGates = DEFAULT_GATES, change: Change = no_change) -> LoadedConfig:
    """Load a KubeSchedulerConfiguration from YAML or JSON text. Raises ConfigError."""
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    try:
        config = decode_document(data, gates.release)
    except DocumentError as error:
        raise ConfigError("decode", str(error)) from None
    return check(config, gates, change)


def load_file(
    path: str | Path, gates: FeatureGates = DEFAULT_GATES, change: Change = no_change
) -> LoadedConfig:
    """Load a KubeSchedulerConfiguration from a file. Raises ConfigError."""
    return load(read_file(path), gates, change)


def read_file(path: str | Path) -> bytes:
    """The content of a file. Raises ConfigError."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError("read", path_error(error, str(path))) from None
    if len(data) > MOST_BYTES:
        raise ConfigError("read", f"expected at most {MOST_BYTES >> 20} MiB")
    return data


def check(
    config: SchedulerConfig, gates: FeatureGates = DEFAULT_GATES, change: Change = no_change
) -> LoadedConfig:
    """Complete and validate a configuration made in Python. Raises ConfigError."""
    completed = change(complete(config, gates))
    errors = validate(completed, gates)
    if errors:
        raise ConfigError("validation", aggregate(errors))
    return LoadedConfig(completed, gates)


def default_config(gates: FeatureGates = DEFAULT_GATES) -> LoadedConfig:
    """The configuration of a scheduler without a configuration file."""
    return check(SchedulerConfig(), gates)


@dataclass(frozen=True, slots=True)
class TypeMeta:
    """The kind of an object and where it is defined."""

    group: str = ""
    version: str = ""
    kind: str = ""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def or_else(self, default: "TypeMeta") -> "TypeMeta":
        """This kind, with what it leaves open taken from a default."""
        group, version = self.group, self.version
        if not version and group in ("", default.group):
            group, version = default.group, default.version
        return TypeMeta(group, version, self.kind or default.kind)


def decode_document(data: bytes, release: Release = DEFAULT) -> SchedulerConfig:
    """Decode a KubeSchedulerConfiguration of a release from YAML or JSON. Raises DocumentError."""
    tree, repeated_keys = _parse(data)
    meta = _type_meta(tree)
    if not meta.kind:
        raise DocumentError(f"Object 'Kind' is missing in '{_shown_text(data)}'")
    if not meta.version:
        raise DocumentError(f"Object 'apiVersion' is missing in '{_shown_text(data)}'")
    value, problems = decode_strictly(tree, _schema_of(meta, release))
    strict = [*repeated_keys, *problems]
    if isinstance(value, SchedulerConfig):
        value, nested = _decode_plugin_args(value, release)
        strict += nested
    if strict:
        raise StrictDocumentError(strict)
    if not isinstance(value, SchedulerConfig):
        raise DocumentError(f"couldn't decode as {KIND}, got {meta.api_version}, Kind={meta.kind}: ")
    return value


def _parse(data: bytes) -> tuple[Tree, list[str]]:
    """The document's JSON value, and what YAML's strictness has to say."""
    if looks_like_json(data):
        try:
            return parse_json(data), []
        except TextError as error:
            raise DocumentError(f"{_NO_TYPE_META}{error}") from None
    try:
        document = yaml_to_json(data)
    except TextError as error:
        raise DocumentError(str(error)) from None
    if not document.repeated_keys:
        return document.tree, []
    return document.tree, ["yaml: unmarshal errors:\n  " + "\n  ".join(document.repeated_keys)]


def _type_meta(tree: Tree) -> TypeMeta:
    """The kind an object says it has. Here, and only here, the case of field names does not matter."""
    if tree is None:
        return TypeMeta()
    if not isinstance(tree, ObjectNode):
        found = f"json: cannot unmarshal {kind_of(tree)} into Go value of type {_TYPE_META}"
        raise DocumentError(_NO_TYPE_META + found)
    found_fields = {"apiVersion": "", "kind": ""}
    names = {name.lower(): name for name in found_fields}
    mismatch = ""
    for member, value in tree.members:
        name = names.get(member.lower())
        if name is None or value is None:
            continue
        if isinstance(value, str):
            found_fields[name] = value
        elif not mismatch:
            mismatch = f"json: cannot unmarshal {kind_of(value)} into Go struct field .{name} of type string"
    if mismatch:
        raise DocumentError(_NO_TYPE_META + mismatch)
    return _parse_version(found_fields["apiVersion"], found_fields["kind"])


def _parse_version(api_version: str, kind: str) -> TypeMeta:
    if api_version in ("", "/"):
        return TypeMeta(kind=kind)
    group, slash, version = api_version.rpartition("/")
    if "/" in group:
        raise DocumentError(f"unexpected GroupVersion string: {api_version}")
    return TypeMeta(group, version, kind) if slash else TypeMeta("", api_version, kind)


def _schema_of(meta: TypeMeta, release: Release) -> StructOf:
    known = kinds(release)
    if meta.group == GROUP and meta.version == _V1 and meta.kind in known:
        return known[meta.kind]
    kind, version = quote(meta.kind), quote(meta.api_version)
    raise DocumentError(f"no kind {kind} is registered for version {version} in scheme {_SCHEME}")


def _decode_plugin_args(config: SchedulerConfig, release: Release) -> tuple[SchedulerConfig, list[str]]:
    """Decode the arguments of in-tree plugins; gives the configuration and their strictness problems."""
    strict: list[str] = []
    profiles: list[Profile] = []
    for i, profile in enumerate(config.profiles):
        entries: list[PluginConfig] = []
        for j, entry in enumerate(profile.plugin_config):
            where = f"decoding .profiles[{i}].pluginConfig[{j}]: "
            try:
                args, problems = _decode_args(entry.name, entry.args, release)
            except DocumentError as error:
                raise DocumentError(where + str(error)) from None
            if problems:
                inner = StrictDocumentError(problems)
                strict.append(
                    where + str(StrictDocumentError([f"decoding args for plugin {entry.name}: {inner}"]))
                )
            entries.append(PluginConfig(name=entry.name, args=args))
        profiles.append(replace(profile, plugin_config=tuple(entries)))
    return replace(config, profiles=tuple(profiles)), strict


def _decode_args(plugin: str, tree: Tree, release: Release) -> tuple[Any, tuple[str, ...]]:
    """The arguments of one plugin: typed if it is in-tree and has any, otherwise plain data."""
    expected = TypeMeta(GROUP, _V1, f"{plugin}Args")
    if expected.kind not in PLUGIN_ARGS:
        return _as_read_again(to_python(tree)), ()
    try:
        meta = _type_meta(tree).or_else(expected)
        if not meta.version:
            raise DocumentError(f"Object 'apiVersion' is missing in '{as_json(to_python(tree))}'")
        value, problems = decode_strictly(ObjectNode() if tree is None else tree, _schema_of(meta, release))
    except DocumentError as error:
        raise DocumentError(f"decoding args for plugin {plugin}: {error}") from None
    if meta.kind != expected.kind:
        wanted, got = f"{expected.kind}.{GROUP}", f"{meta.kind}.{meta.group}"
        raise DocumentError(f"args for plugin {plugin} were not of type {wanted}, got {got}")
    return value, problems


def _shown_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _as_read_again(value: Any) -> Any:
    """Arguments without a type as they would be read after they were written out.

    A whole number may be written as a float, and is an integer then; one that needs more than 64 bits is a
    float.
    """
    if isinstance(value, dict):
        return {name: _as_read_again(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_as_read_again(inner) for inner in value]
    if not isinstance(value, int | float) or (isinstance(value, int) and fits_int64(value)):
        return value
    try:
        text = float_text(float(value))
    except (OverflowError, TextError):
        return value
    return int(text) if text.removeprefix("-").isdigit() and fits_int64(int(text)) else float(text)
