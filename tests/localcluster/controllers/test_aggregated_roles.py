"""Cluster roles with an aggregation rule have the rules of those they select."""

from collections.abc import Sequence
from typing import Any

from localcluster.controllers.small_clusters import World, live
from stowplan.api.catalogue import CLUSTER_ROLES
from stowplan.api.requests import PatchType
from stowplan.localcluster.controllerruntime.controller import Controller, ControllerContext
from stowplan.localcluster.controllers.clusterroleaggregation import ClusterRoleAggregationController

LABEL = "rbac.authorization.k8s.io/aggregate-to-view"
GIZMOS = {"verbs": ["get"], "apiGroups": ["example.com"], "resources": ["gizmos"]}


def controllers(context: ControllerContext) -> Sequence[Controller]:
    return [ClusterRoleAggregationController(context)]


def test_rules_follow_the_roles_that_are_selected() -> None:
    async def story(world: World) -> None:
        def rules(name: str) -> Any:
            return world.store.get(CLUSTER_ROLES, "", name)["rules"]

        def resources(name: str) -> set[str]:
            return {resource for rule in rules(name) for resource in rule["resources"]}

        await world.settle()
        assert {"pods", "configmaps"} <= resources("view") <= resources("edit") <= resources("admin")
        assert "secrets" not in resources("view")
        metadata = {"name": "gizmos", "labels": {LABEL: "true"}}
        world.store.create(CLUSTER_ROLES, {"metadata": metadata, "rules": [GIZMOS]})
        await world.settle()
        assert all(rules(name).count(GIZMOS) == 1 for name in ("view", "edit", "admin"))
        unlabelled = {"metadata": {"labels": {LABEL: None}}}
        world.store.patch(CLUSTER_ROLES, "", "gizmos", unlabelled, PatchType.MERGE)
        await world.settle()
        assert not any(GIZMOS in rules(name) for name in ("view", "edit", "admin"))

    live(story, controllers)
