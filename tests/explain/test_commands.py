"""Commands to copy: each changes the object where the change lasts."""

import shlex

import pytest

from stowplan.explain.commands import (
    Owner,
    changing_pod,
    creating,
    joined_patches,
    patching,
    with_commands,
)
from stowplan.explain.document.pod import Change, PodDocument

PATCH = {"spec": {"schedulerName": "it's"}}


def owner(kind: str, group: str = "apps/v1", name: str = "web") -> Owner:
    return Owner(group, kind, "shop", name)


CHANGES = {
    "a pod without owner is replaced": (None, ["get", "pod/web-0", "replace", "--force"], ["delete"]),
    "a deployment gets another template": (
        owner("Deployment"),
        ["patch", "deployment/web", '{"spec":{"template":{"spec":{"schedulerName":"it\'s"}}}}'],
        ["delete", "replace"],
    ),
    "a stateful set does not replace a waiting pod": (
        owner("StatefulSet"),
        ["patch", "statefulset/web", "&&", "delete", "pod/web-0"],
        ["replace"],
    ),
    "the template of a job cannot be changed": (
        owner("Job", "batch/v1"),
        ["get", "job/web", "replace", "--force"],
        ["pod/web-0"],
    ),
    "a cron job has its template further down": (
        owner("CronJob", "batch/v1"),
        [
            "patch",
            "cronjob/web",
            '{"spec":{"jobTemplate":{"spec":{"template":{"spec":{"schedulerName":"it\'s"}}}}}}',
        ],
        ["replace"],
    ),
}


@pytest.mark.parametrize("case", CHANGES, ids=str)
def test_a_change_of_a_pod_is_made_where_it_lasts(case: str) -> None:
    above, has, lacks = CHANGES[case]
    words = shlex.split(changing_pod("shop/web-0", above, PATCH))
    assert not [one for one in has if one not in words], words
    assert not [one for one in lacks if one in words], words


def test_nothing_is_printed_for_controllers_whose_template_is_not_known() -> None:
    assert not changing_pod("shop/web-0", owner("Workflow", "argoproj.io/v1alpha1"), PATCH)
    assert not changing_pod("shop/web-0", owner("Deployment", "example.com/v1"), PATCH)


def test_objects_of_the_cluster_have_no_namespace() -> None:
    assert "-n" not in shlex.split(patching("node/n0", "", {"spec": {"unschedulable": None}}))


def test_what_is_created_stands_in_the_command() -> None:
    text = creating({"kind": "PodGroup", "metadata": {"name": "ring"}})
    assert text.startswith("kubectl apply -f - <<'EOF'\n{")
    assert text.endswith("}\nEOF")


def test_patches_are_joined_by_field() -> None:
    joined = joined_patches({"spec": {"a": 1, "b": {"c": 2}}}, {"spec": {"b": {"d": None}}, "e": 3})
    assert joined == {"spec": {"a": 1, "b": {"c": 2, "d": None}}, "e": 3}


def test_each_change_of_a_document_gets_its_command() -> None:
    changes = (
        Change("schedulerName", "", "n0", 1, patch=PATCH),
        Change("pod", "", "n0", 1, action={"delete": "shop/other"}),
        Change("uncordon", "", "n0", 1, action={"uncordon": "n0"}),
        Change("node", "", "n0", 1, action={"addNode": "n0"}),
        Change("quota", "", "n0", 1, command="kubectl patch quota/q"),
    )
    found = with_commands(PodDocument(pod="shop/web-0", state="pending", source="", changes=changes), None)
    assert [one.command[:25] for one in found.changes] == [
        "kubectl get pod/web-0 -n ",
        "kubectl delete pod/other ",
        "kubectl uncordon n0",
        "",
        "kubectl patch quota/q",
    ]
