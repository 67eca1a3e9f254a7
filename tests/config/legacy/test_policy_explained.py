"""Explanations for a profile made of predicates and priorities."""

from config.legacy.documents import policy, profile_of, sample
from scheduler.live_scheduler import World, live
from stowplan.config.legacy import policy_config, provider_config
from stowplan.explain.terminal.decision import explain
from stowplan.testing import cluster, node, pod

LEAST_AND_LABEL = policy(
    predicates=[{"name": "PodFitsResources"}],
    priorities=[
        {"name": "LeastRequestedPriority", "weight": 2},
        {"name": "fast", "weight": 1, "argument": {"labelPreference": {"label": "ssd", "presence": True}}},
    ],
)


def test_scores_have_the_names_and_the_scale_of_that_time() -> None:
    world = cluster(
        [
            node("a").allocatable(cpu="4", memory="4Gi").labels(ssd="y"),
            node("b").allocatable(cpu="8", memory="8Gi"),
        ],
        config=profile_of(policy_config(LEAST_AND_LABEL)),
    )
    text = explain(world.decide(pod("p").requests(cpu="1", memory="1Gi")))
    assert text == (
        "Pod default/p: goes to a\n"
        "\n"
        "Filter: all 2 nodes are feasible\n"
        "\n"
        "Score: all 2 feasible nodes (points are score times weight, in brackets the score from 0 to 10)\n"
        "\n"
        "  priority                plugin            weight        > a          b\n"
        "  ----------------------  ----------------  ------  ---------  ---------\n"
        "  LeastRequestedPriority  NodeResourcesFit       2  150 (7.5)  174 (8.7)\n"
        "  NodeLabelPriority       NodeLabel              1   100 (10)      0 (0)\n"
        "  total                                                   250        174\n"
        "\n"
        "a wins by 76 points (250 to 174).\n"
    )


def test_of_1_9_the_points_are_those_that_were_given() -> None:
    """4 - 1 of 4 cpus and 4 - 1 of 4 GiB are free: 7 of 10 points each then, 7.5 today."""
    world = cluster(
        [node("a").allocatable(cpu="4", memory="4Gi"), node("b").allocatable(cpu="8", memory="8Gi")],
        config=profile_of(provider_config("DefaultProvider@1.9")),
    )
    decision = world.decide(pod("p").requests(cpu="1", memory="1Gi"))
    assert decision.old_names["NodeResourcesLeastAllocated"] == "LeastRequestedPriority"
    scores = {one.node: one.scores["NodeResourcesLeastAllocated"] for one in decision.best}
    assert scores == {"a": 70, "b": 80}
    assert "70 (7)" in explain(decision)


def test_a_configuration_of_today_shows_what_it_always_did() -> None:
    text = explain(cluster([node("a"), node("b")]).decide(pod("p")))
    assert "priority" not in text
    assert "in brackets" not in text


def test_the_old_names_are_part_of_the_data_too() -> None:
    world = cluster([node("a"), node("b")], config=profile_of(policy_config(LEAST_AND_LABEL)))
    assert world.decide(pod("p")).document()["oldNames"] == {
        "NodeResourcesFit": "LeastRequestedPriority",
        "NodeLabel": "NodeLabelPriority",
    }


def checking(everything: bool) -> str:
    return policy(
        predicates=[{"name": "GeneralPredicates"}], priorities=[], alwaysCheckAllPredicates=everything
    )


def test_with_all_predicates_checked_all_reasons_are_told() -> None:
    def told(everything: bool) -> str:
        async def story(world: World) -> None:
            world.add_node("cordoned", "1", unschedulable=True)
            world.add_node("small", "1")
            world.add_node("other", "64")
            await world.add_pod("p", cpu="8", nodeSelector={"disk": "ssd"})

        return live(story, config=policy_config(checking(everything))).message("p")

    affinity = "node(s) didn't match Pod's node affinity/selector"
    first = f"0/3 nodes are available: 1 Insufficient cpu, 1 {affinity}, 1 node(s) were unschedulable."
    every = f"0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu, 3 {affinity}."
    assert told(everything=False).startswith(first)
    assert told(everything=True).startswith(every)


def test_checking_all_predicates_changes_no_decision() -> None:
    for everything in (True, False):
        world = cluster(
            [node("a").allocatable(cpu="1"), node("b").allocatable(cpu="4")],
            config=profile_of(policy_config(checking(everything))),
        )
        assert world.decide(pod("p").requests(cpu="2")).node == "b"


def test_the_sample_of_that_time_is_explained_in_its_words() -> None:
    profile = profile_of(policy_config(sample("scheduler-policy-config.json")))
    assert dict(profile.old_names) == {
        "NodeResourcesFit": "LeastRequestedPriority",
        "BalancedResourceAllocation": "BalancedResourceAllocation",
        "SelectorSpread": "ServiceSpreadingPriority",
        "EqualPriority": "EqualPriority",
    }
