"""The rights of the manifests against those that a real API server gives to kube-scheduler."""

from pathlib import Path

import pytest
import yaml

from deploy.manifests import ACCOUNT, NAMESPACE, OVERLAYS, Right, granted, of_kind, rights
from observed.files import recorded
from stowplan.explain.layers.reads import READ
from stowplan.localcluster.auth.policy import bootstrap_policy
from stowplan.simulate.snapshot.sources import KINDS

DEPLOY = Path(__file__).parents[2] / "deploy"
READER = "extension-apiserver-authentication-reader"
LEASES = ("leases", "leasecandidates")


COMPOSITE_GROUPS = {
    Right("", verb, "scheduling.k8s.io", resource, "")
    for resource, verbs in (
        ("compositepodgroups", ("get", "list", "watch")),
        ("compositepodgroups/status", ("patch", "update")),
    )
    for verb in verbs
}
"""Additional rights in 1.37 with the gate CompositePodGroup; the recording is of 1.36."""


def recorded_rights(*, of_leases: bool = True) -> set[Right]:
    """Rights of kube-scheduler, except reading how to authenticate."""
    roles = recorded("rbac/kube-scheduler")
    found = set(rights(roles["system:kube-scheduler"])) | set(rights(roles["system:volume-scheduler"]))
    found |= set(rights(roles["system::leader-locking-kube-scheduler"], NAMESPACE))
    return {right for right in found if of_leases or right.resource not in LEASES} | COMPOSITE_GROUPS


def allows(held: set[Right], verb: str, resource: str, name: str, namespace: str = NAMESPACE) -> bool:
    """True if an action on a lease or the like is allowed."""
    return any(
        (right.verb, right.resource) == (verb, resource)
        and right.namespace in ("", namespace)
        and right.name in ("", name)
        for right in held
    )


def test_instead_of_kube_scheduler_it_may_do_just_what_that_may() -> None:
    assert granted("instead") == recorded_rights()


def test_beside_kube_scheduler_it_may_do_the_same_but_for_leases() -> None:
    held = granted("beside")
    assert {right for right in held if right.resource not in LEASES} == recorded_rights(of_leases=False)


@pytest.mark.parametrize(("overlay", "lease"), [("beside", "stowplan"), ("instead", "kube-scheduler")])
@pytest.mark.parametrize("verb", ["create", "get", "update"])
def test_its_lease_may_be_held(overlay: str, lease: str, verb: str) -> None:
    assert allows(granted(overlay), verb, "leases", lease)


@pytest.mark.parametrize("verb", ["get", "update", "delete", "patch"])
def test_beside_kube_scheduler_the_leases_of_others_are_out_of_reach(verb: str) -> None:
    held = granted("beside")
    assert not allows(held, verb, "leases", "kube-scheduler")
    assert not allows(held, verb, "leases", "stowplan", "default")


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_all_rights_are_given_to_the_account_and_to_nobody_else(overlay: str) -> None:
    bindings = {**of_kind(overlay, "ClusterRoleBinding"), **of_kind(overlay, "RoleBinding")}
    assert [binding["subjects"] for binding in bindings.values()] == [[ACCOUNT]] * len(bindings)
    made = {**of_kind(overlay, "ClusterRole"), **of_kind(overlay, "Role")}
    assert {binding["roleRef"]["name"] for binding in bindings.values()} == {*made, READER}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_it_may_read_how_the_api_server_knows_people(overlay: str) -> None:
    binding = of_kind(overlay, "RoleBinding")["stowplan-authentication-reader"]
    assert binding["metadata"]["namespace"] == NAMESPACE
    assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) == ("Role", READER)
    assert READER in recorded("rbac/kube-scheduler")


@pytest.mark.parametrize("name", ["system:kube-scheduler", "system:volume-scheduler"])
def test_the_embedded_cluster_gives_kube_scheduler_what_a_real_one_gives(name: str) -> None:
    [role] = [
        made
        for resource, made in bootstrap_policy()
        if (resource.kind, made["metadata"]["name"]) == ("ClusterRole", name)
    ]
    assert set(rights(role["rules"])) >= set(rights(recorded("rbac/kube-scheduler")[name]))


def test_who_only_looks_may_read_what_answers_depend_on_and_do_nothing_else() -> None:
    documents = list(yaml.safe_load_all((DEPLOY / "view" / "rights.yaml").read_text()))
    [role] = [one for one in documents if one["kind"] == "ClusterRole"]
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"get", "list", "watch"}
    held = {
        (group, plural)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for plural in rule["resources"]
    }
    resources = (*(kind.served for kind in KINDS), *READ)
    assert {(one.group, one.plural) for one in resources} == held
