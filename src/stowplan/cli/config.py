"""`stowplan config`: looking at and checking scheduler configurations."""

import textwrap
from collections.abc import Callable, Iterable, Iterator

import click

from stowplan.api import releases
from stowplan.api.gates.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.api.gates.flag import parse_feature_gates
from stowplan.cli.one_line import one_line_errors
from stowplan.cli.options import gates_options, plugins_option
from stowplan.cli.output import say
from stowplan.config import BuiltConfig, LoadedConfig, build, default_config
from stowplan.config.dump import dump_yaml
from stowplan.config.emulation import emulated_release
from stowplan.config.legacy import load_any_file
from stowplan.config.legacy.profiles import LATEST_POLICY_RELEASE
from stowplan.config.load import read_file
from stowplan.config.types import ATTRIBUTES, Extender
from stowplan.config.upgrade import (
    ALREADY_V1,
    Migrated,
    migrate,
    migrate_provider,
    settings_of,
    upgrade_notes,
)
from stowplan.scheduler.framework.interface import MULTI_POINT, ExtensionPoint
from stowplan.scheduler.framework.profile import PluginUse, ProfileSpec
from stowplan.scheduler.framework.registry import installed_plugins, load_plugin
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.metrics.catalogue import metric_notes
from stowplan.scheduler.plugins.legacy.names import RELEASES
from stowplan.scheduler.plugins.registry import in_tree_registry
from stowplan.scheduler.table.table import ClusterTable

_IN_ORDER = tuple(ExtensionPoint(section) for section in ATTRIBUTES if section != MULTI_POINT)


@click.group("config")
def config_group() -> None:
    """Show, validate and migrate configurations."""


@config_group.command("defaults")
@gates_options
def defaults_command(gates: FeatureGates | None) -> None:
    """Print the default configuration."""
    with one_line_errors():
        click.echo(dump_yaml(build(default_config(gates or DEFAULT_GATES)).config), nl=False)


@config_group.command("validate")
@click.argument("file")
@gates_options
@plugins_option
def validate_command(file: str, gates: FeatureGates | None, plugins: tuple[str, ...]) -> None:
    """Validate FILE as the scheduler does at startup.

    FILE is a KubeSchedulerConfiguration of any version, or a Policy.
    """
    with one_line_errors():
        loaded, built = built_file(file, gates or DEFAULT_GATES, plugins)
    names = ", ".join(profile.scheduler_name for profile in built.profiles)
    say(f"{file}: valid, schedules for {names}")
    echo_notes(loaded.legacy.notes)


@config_group.command("show")
@click.argument("file")
@gates_options
@plugins_option
def show_command(file: str, gates: FeatureGates | None, plugins: tuple[str, ...]) -> None:
    """Show FILE with plugins and defaults resolved.

    Prints the plugins of each extension point in order, then the configuration with all defaults.

    FILE is a KubeSchedulerConfiguration of any version, or a Policy.
    """
    with one_line_errors():
        _, built = built_file(file, gates or DEFAULT_GATES, plugins)
    for line in _described(built):
        say(line)
    click.echo(dump_yaml(built.config), nl=False)


@config_group.command("migrate")
@click.argument("file", required=False)
@click.option(
    "--algorithm-provider",
    "provider",
    metavar="NAME",
    help="Algorithm provider to convert instead of FILE: DefaultProvider or ClusterAutoscalerProvider, as of "
    "1.18; with @1.9 appended, as of 1.9.",
)
@click.option(
    "--release",
    type=click.Choice(RELEASES),
    default=LATEST_POLICY_RELEASE,
    show_default=True,
    help="Release that defines the predicates and priorities of a Policy.",
)
@click.option(
    "--to",
    type=click.Choice(tuple(releases.RELEASES)),
    help="Kubernetes release to move to: also tells on stderr what changes for this configuration, compared "
    "with --emulated-version [default of that: the release before].",
)
@gates_options
def migrate_command(
    file: str | None, provider: str | None, release: str, to: str | None, gates: FeatureGates | None
) -> None:
    """Convert FILE to KubeSchedulerConfiguration v1.

    FILE is a KubeSchedulerConfiguration of any version, or a Policy. The result goes to stdout.
    Settings without an exact equivalent are listed on stderr, with their replacement.
    """
    if (file is None) == (provider is None):
        raise click.UsageError("expected FILE or --algorithm-provider")
    with one_line_errors():
        before, after = _from_and_to(gates, to)
        migrated = _migrated(file, provider, release, after)
        notes = [note for note in migrated.notes if to is None or note != ALREADY_V1]
        if to is not None:
            notes += upgrade_notes(migrated.text.encode(), before, after)
            notes += metric_notes(before.release, after.release)
    click.echo(migrated.text, nl=False)
    echo_notes(notes)


def _from_and_to(gates: FeatureGates | None, to: str | None) -> tuple[FeatureGates, FeatureGates]:
    """The gates of the user in the release used so far, and in the one to move to."""
    if to is None:
        return gates or DEFAULT_GATES, gates or DEFAULT_GATES
    new = releases.release(to)
    names = list(releases.RELEASES)
    previous = releases.RELEASES[names[max(names.index(to) - 1, 0)]]
    before = FeatureGates(release=previous) if gates is None else gates
    return before, settings_of(before, new)


def _migrated(file: str | None, provider: str | None, release: str, gates: FeatureGates) -> Migrated:
    if provider is not None:
        return migrate_provider(provider, gates)
    assert file is not None
    return migrate(read_file(file), gates, release=release)


def echo_notes(notes: Iterable[str]) -> None:
    """Print notes about a valid configuration."""
    for note in notes:
        say(f"note: {note}", err=True)


def read_gates(
    settings: Iterable[str],
    emulated: Iterable[str] = (),
    compatible: Iterable[str] = (),
    why_without_effect: Callable[[str], str] = releases.why_without_effect,
) -> FeatureGates:
    """The feature gates of options; mistakes are reported in one line, what has no effect in a note."""
    with one_line_errors():
        release = emulated_release(emulated, compatible)
        gates = parse_feature_gates(settings, release)
    reasons = ((name, why_without_effect(name)) for name in sorted(gates.changed()))
    echo_notes(f"feature gate {name} has no effect: {why}" for name, why in reasons if why)
    return gates


def built_file(file: str, gates: FeatureGates, plugins: tuple[str, ...]) -> tuple[LoadedConfig, BuiltConfig]:
    """The configuration of a file, with every plugin in use constructed once, as a scheduler would."""
    registry = in_tree_registry().with_plugins([*installed_plugins(), *map(load_plugin, plugins)])
    loaded = load_any_file(file, gates)
    built = build(loaded, registry)
    for profile in built.profiles:
        Framework(profile, ClusterTable(gates.release), registry, gates)
    return loaded, built


def _described(built: BuiltConfig) -> Iterator[str]:
    for profile in built.profiles:
        yield f"Profile {profile.scheduler_name} ({_nodes_scored(profile)})"
        for point in _IN_ORDER:
            if profile.plugins[point]:
                yield _wrapped(point.value, [_use(use, point) for use in profile.plugins[point]])
        yield ""
    if built.extenders:
        yield "Extenders, in calling order"
        for extender in built.extenders:
            yield f"  {extender.url_prefix or '(no address)'}: {_extender(extender)}"
        yield ""
    yield "Completed configuration"
    yield ""


def _wrapped(heading: str, items: list[str]) -> str:
    start = f"  {heading:<18} "
    return textwrap.fill(
        ", ".join(items),
        100,
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_on_hyphens=False,
    )


def _nodes_scored(profile: ProfileSpec) -> str:
    percentage = profile.percentage_of_nodes_to_score
    if percentage is None:
        return "percentageOfNodesToScore not set"
    return (
        "percentageOfNodesToScore 0, adaptive" if percentage == 0 else f"scores {percentage} % of the nodes"
    )


def _use(use: PluginUse, point: ExtensionPoint) -> str:
    return f"{use.name}×{use.weight}" if point.is_weighted else use.name


def _extender(extender: Extender) -> str:
    parts = []
    if extender.filter_verb:
        parts.append("filter")
    if extender.prioritize_verb:
        parts.append(f"prioritize×{extender.weight}")
    if extender.preempt_verb:
        parts.append("preempt")
    if extender.bind_verb:
        parts.append("bind")
    if extender.ignorable:
        parts.append("ignorable")
    return ", ".join(parts) or "no verbs"
