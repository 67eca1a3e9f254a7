"""A Policy run directly, its migrated configuration, and its names taken one by one: the same decisions."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from config.legacy.documents import profile_of
from config.legacy.random_policies import Scene, policies, scenes
from effort import examples
from stowplan.config import load
from stowplan.config.legacy import policy_config
from stowplan.config.upgrade import migrate
from stowplan.scheduler.framework.profile import ProfileSpec
from stowplan.scheduler.plugins.legacy.names import MANDATORY, PREDICATES, PRIORITIES, RELEASES, Use

RELEASE_AND_POLICY = st.sampled_from(RELEASES).flatmap(
    lambda release: st.tuples(st.just(release), policies(release))
)


def outcome(scene: Scene, profile: ProfileSpec) -> tuple[set[str], set[str]]:
    """The nodes that can take the pod, and the best of them."""
    made = scene.under(profile)
    found = made.evaluate(scene.wanting)
    name_of = made.table.name_of
    best = found.best_rows().tolist() if found.feasible_count else []
    return {name_of(row) for row in found.feasible_rows.tolist()}, {name_of(row) for row in best}


@settings(max_examples=examples(30))
@given(scene=scenes(), chosen=RELEASE_AND_POLICY)
def test_a_policy_and_its_migrated_configuration_decide_alike(
    scene: Scene, chosen: tuple[str, dict[str, Any]]
) -> None:
    release, policy = chosen
    text = json.dumps(policy)
    direct = profile_of(policy_config(text, release=release))
    migrated = profile_of(load(migrate(text.encode(), release=release).text))
    assert outcome(scene, migrated) == outcome(scene, direct)
    assert dict(migrated.plugins) == dict(direct.plugins)
    assert dict(migrated.args) == dict(direct.args)


# Names taken one by one


def only(uses: list[tuple[Use, dict[str, Any]]]) -> ProfileSpec:
    """A profile with these plugins and nothing else."""
    sections: dict[str, dict[str, list[Any]]] = {
        "multiPoint": {"disabled": [{"name": "*"}]},
        "queueSort": {"enabled": [{"name": "PrioritySort"}]},
        "bind": {"enabled": [{"name": "DefaultBinder"}]},
    }
    args: dict[str, Any] = {}
    for use, given_args in uses:
        for point in use.points:
            listed = sections.setdefault(point, {}).setdefault("enabled", [])
            if {"name": use.plugin} not in listed:
                listed.append({"name": use.plugin})
        if use.args or given_args:
            args.setdefault(use.plugin, {}).update({**use.args, **given_args})
    config = [{"name": name, "args": value} for name, value in args.items()]
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler", "plugins": sections, "pluginConfig": config}],
    }
    return profile_of(load(json.dumps(document)))


def own_args(one: dict[str, Any]) -> dict[str, Any]:
    argument = one.get("argument") or {}
    for kind, value in argument.items():
        if kind == "serviceAffinity":
            return {"affinityLabels": value["labels"]}
        if kind == "labelsPresence":
            return {"presentLabels" if value["presence"] else "absentLabels": value["labels"]}
        if kind == "serviceAntiAffinity":
            return {"antiAffinityLabelsPreference": [value["label"]]}
        if kind == "labelPreference":
            name = "presentLabelsPreference" if value["presence"] else "absentLabelsPreference"
            return {name: [value["label"]]}
        return {name: items for name, items in value.items() if items}
    return {}


@settings(max_examples=examples(12))
@given(scene=scenes(), chosen=RELEASE_AND_POLICY)
def test_a_policy_decides_as_its_names_do_one_by_one(
    scene: Scene, chosen: tuple[str, dict[str, Any]]
) -> None:
    """A node is feasible if every predicate alone finds it so, and the best has the highest weighted sum of
    what every priority alone gives to feasible nodes."""
    release, policy = chosen
    names = [(PREDICATES[one["name"]], own_args(one)) for one in policy["predicates"]]
    names += [(PREDICATES[name], {}) for name in MANDATORY[release]]
    deciding = [(use, args) for entry, args in names for use in entry.as_of(release).uses]
    feasible = {node.name for node in scene.nodes}
    for pair in deciding:
        feasible &= outcome(scene, only([pair]))[0]
    direct = profile_of(policy_config(json.dumps(policy), release=release))
    found, best = outcome(scene, direct)
    assert found == feasible
    if len(feasible) < 2:
        return
    totals = dict.fromkeys(sorted(feasible), 0)
    for one in policy["priorities"]:
        [use] = PRIORITIES[one["name"]].as_of(release).uses
        made = scene.under(only([*deciding, (use, own_args(one))]))
        scored = made.decide(scene.wanting, top=len(feasible))
        for candidate in scored.best:
            totals[candidate.node] += candidate.total * one["weight"]
    decided = scene.under(direct).decide(scene.wanting, top=len(feasible))
    assert ({one.node: one.total for one in decided.best} or dict.fromkeys(totals, 0)) == totals
    highest = max(totals.values())
    assert best == {name for name, total in totals.items() if total == highest}
