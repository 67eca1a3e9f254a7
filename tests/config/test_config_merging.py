"""How the plugin lists of a configuration become the plugins that run."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.config.defaults import merge_plugin_set
from stowplan.config.types import Plugin, PluginSet
from stowplan.scheduler.framework.interface import ExtensionPoint
from stowplan.scheduler.framework.profile import PluginSelection, PluginUse, resolve_plugins
from stowplan.scheduler.framework.status import ProfileError

BASICS = (PluginUse("Sorter"), PluginUse("Binder"))
PLUGINS = {
    "Sorter": frozenset({ExtensionPoint.QUEUE_SORT}),
    "OtherSorter": frozenset({ExtensionPoint.QUEUE_SORT}),
    "Binder": frozenset({ExtensionPoint.BIND}),
    "A": frozenset({ExtensionPoint.FILTER, ExtensionPoint.SCORE}),
    "B": frozenset({ExtensionPoint.FILTER, ExtensionPoint.SCORE}),
    "C": frozenset({ExtensionPoint.FILTER, ExtensionPoint.SCORE}),
    "OnlyFilter": frozenset({ExtensionPoint.FILTER}),
    "Placer": frozenset({ExtensionPoint.PLACEMENT_GENERATE}),
    "OtherPlacer": frozenset({ExtensionPoint.PLACEMENT_GENERATE}),
}


def plugins(text: str) -> tuple[Plugin, ...]:
    """`A B=3` as a list of plugins."""
    pairs = (word.partition("=") for word in text.split())
    return tuple(Plugin(name=name, weight=int(weight or 0)) for name, _, weight in pairs)


def uses(text: str) -> tuple[PluginUse, ...]:
    return tuple(PluginUse(plugin.name, plugin.weight) for plugin in plugins(text))


@pytest.mark.parametrize(
    ("enabled", "disabled", "expected"),
    [
        pytest.param("", "", "A=1 B=2 C", id="without custom plugins the defaults stay"),
        pytest.param("D", "", "A=1 B=2 C D", id="a custom plugin comes after the defaults"),
        pytest.param("", "B", "A=1 C", id="a disabled default goes"),
        pytest.param("", "*", "", id="a star disables all defaults"),
        pytest.param("D", "*", "D", id="a star does not disable custom plugins"),
        pytest.param(
            "B=9", "", "A=1 B=9 C", id="a default enabled again keeps its place and gets the new weight"
        ),
        pytest.param("B", "", "A=1 B C", id="a default enabled again without weight loses its weight"),
        pytest.param("B=9", "B", "A=1 C B=9", id="a default disabled and enabled moves to the end"),
        pytest.param("D D=2", "", "A=1 B=2 C D D=2", id="a custom plugin named twice stands there twice"),
        pytest.param("B=8 B=9", "", "A=1 B=9 C B=8", id="of two mentions the later one replaces the default"),
        pytest.param("", "Nobody", "A=1 B=2 C", id="disabling an unknown plugin changes nothing"),
    ],
)
def test_merging_with_the_default_list(enabled: str, disabled: str, expected: str) -> None:
    default = PluginSet(enabled=plugins("A=1 B=2 C"))
    merged = merge_plugin_set(default, PluginSet(enabled=plugins(enabled), disabled=plugins(disabled)))
    assert merged.enabled == plugins(expected)
    assert merged.disabled == plugins(disabled)


def test_plugins_disabled_by_default_stay_disabled() -> None:
    default = PluginSet(enabled=plugins("A B"), disabled=plugins("B=3"))
    merged = merge_plugin_set(default, PluginSet(disabled=plugins("A=7")))
    assert merged == PluginSet(disabled=plugins("A B"))


@pytest.mark.parametrize(
    ("here", "disabled", "multi_point", "expected"),
    [
        pytest.param("", "", "A B", "A B", id="multiPoint plugins run in their order"),
        pytest.param("C", "", "A B", "A B C", id="a plugin enabled only here runs after those of multiPoint"),
        pytest.param("B", "", "A B", "B A", id="a plugin enabled here and in multiPoint moves to the front"),
        pytest.param(
            "C B", "", "A B", "B A C", id="overriding plugins first, then multiPoint, then the others"
        ),
        pytest.param(
            "B A", "", "A B", "B A", id="overriding plugins keep the order in which they stand here"
        ),
        pytest.param("", "A", "A B", "B", id="a plugin disabled here does not run here"),
        pytest.param("A", "A", "A B", "B A", id="enabling wins over disabling, and the place is the last"),
        pytest.param("C A", "*", "A B", "C A", id="a star leaves exactly what is enabled here"),
        pytest.param("", "", "Placer A", "A", id="plugins that do not implement the point are skipped"),
    ],
)
def test_resolving_one_point(here: str, disabled: str, multi_point: str, expected: str) -> None:
    selection = PluginSelection(uses(here), frozenset(disabled.split()))
    resolved = resolve_plugins(
        "s", {ExtensionPoint.FILTER: selection}, (*BASICS, *uses(multi_point)), PLUGINS
    )
    assert [use.name for use in resolved[ExtensionPoint.FILTER]] == expected.split()


@pytest.mark.parametrize(
    ("here", "multi_point", "expected"),
    [
        pytest.param("", "A=3 B", "A=3 B=1", id="a missing weight is one"),
        pytest.param("A=7", "A=3 B=2", "A=7 B=2", id="the weight given at the point wins"),
        pytest.param(
            "A", "A=3", "A=1", id="enabled at the point without weight the multiPoint weight is lost"
        ),
        pytest.param(
            "A=2147483647 B=2147483647", "", "A=2147483647 B=2147483647", id="large weights are fine"
        ),
        pytest.param("A=-3", "", "A=-3", id="a negative weight passes if nothing comes after it"),
    ],
)
def test_score_weights(here: str, multi_point: str, expected: str) -> None:
    points = {ExtensionPoint.SCORE: PluginSelection(uses(here))}
    resolved = resolve_plugins("s", points, (*BASICS, *uses(multi_point)), PLUGINS)
    assert resolved[ExtensionPoint.SCORE] == uses(expected)


@pytest.mark.parametrize(
    ("points", "multi_point", "message"),
    [
        ({ExtensionPoint.FILTER: "Nobody"}, "Sorter Binder", 'FilterPlugin "Nobody" does not exist'),
        ({ExtensionPoint.PERMIT: "A"}, "Sorter Binder", 'plugin "A" does not extend PermitPlugin plugin'),
        ({ExtensionPoint.FILTER: "A A"}, "Sorter Binder", 'plugin "A" already registered as "FilterPlugin"'),
        ({}, "Sorter Binder A A", 'plugin "A" already registered as "FilterPlugin"'),
        ({}, "Sorter Binder Nobody", 'PreFilterPlugin "Nobody" does not exist'),
        ({}, "Binder", 'only one queue sort plugin required for profile with scheduler name "s", but got 0'),
        (
            {},
            "Sorter OtherSorter Binder",
            'only one queue sort plugin required for profile with scheduler name "s", but got 2',
        ),
        ({}, "Sorter", 'at least one bind plugin is needed for profile with scheduler name "s"'),
        (
            {},
            "Sorter Binder Placer OtherPlacer",
            'at most one placement generate plugin is allowed for profile with scheduler name "s"',
        ),
        (
            {ExtensionPoint.SCORE: "A=-3 B"},
            "Sorter Binder",
            "score plugins: total score of Score plugins could overflow",
        ),
    ],
)
def test_profiles_that_cannot_be_built(
    points: dict[ExtensionPoint, str], multi_point: str, message: str
) -> None:
    selections = {point: PluginSelection(uses(text)) for point, text in points.items()}
    with pytest.raises(ProfileError) as error:
        resolve_plugins("s", selections, uses(multi_point), PLUGINS)
    assert str(error.value) == message


def test_a_sum_of_weights_beyond_64_bits_is_refused() -> None:
    huge = 2**63 // 100 - 50
    points = {ExtensionPoint.SCORE: PluginSelection((PluginUse("A", huge), PluginUse("B", 100)))}
    with pytest.raises(ProfileError, match="could overflow"):
        resolve_plugins("s", points, BASICS, PLUGINS)


_names = st.lists(st.sampled_from(["A", "B", "C", "OnlyFilter"]), unique=True)


@given(here=_names, disabled=_names, multi_point=_names)
def test_every_plugin_runs_once_and_disabled_ones_only_if_enabled_on_the_spot(
    here: list[str], disabled: list[str], multi_point: list[str]
) -> None:
    selection = PluginSelection(tuple(PluginUse(name) for name in here), frozenset(disabled))
    everywhere = (*BASICS, *(PluginUse(name) for name in multi_point))
    names = [
        use.name
        for use in resolve_plugins("s", {ExtensionPoint.FILTER: selection}, everywhere, PLUGINS)[
            ExtensionPoint.FILTER
        ]
    ]
    assert len(names) == len(set(names))
    assert set(names) == set(here) | (set(multi_point) - set(disabled))
    assert [name for name in names if name in multi_point and name not in here] == [
        name for name in multi_point if name not in here and name not in disabled
    ]
