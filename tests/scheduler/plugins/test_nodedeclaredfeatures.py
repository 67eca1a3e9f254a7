"""NodeDeclaredFeatures: features that pods need and nodes declare, by release."""

from releases import V1_37
from scheduler.plugins.answers import PASSES, verdicts
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.pod import (
    Container,
    ContainerRestartRule,
    VolumeMount,
)
from stowplan.api.releases import Release
from stowplan.config import default_profile
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.framework.status import unresolvable
from stowplan.scheduler.plugins.registry import in_tree_registry
from stowplan.scheduler.table.table import ClusterTable
from stowplan.testing import cluster, node, pod


def test_a_pod_that_needs_a_feature_goes_where_it_is_declared() -> None:
    lacking = unresolvable("node(s) didn't match Pod's required features").by("NodeDeclaredFeatures")
    world = cluster(
        nodes=[
            node("none"),
            node("restart").features("RestartAllContainersOnContainerExits"),
            node("users").features("UserNamespacesHostNetworkSupport", "Other"),
        ]
    )
    rule = ContainerRestartRule(action="RestartAllContainers")
    restarting = pod("p").spec(containers=(Container(name="c", restart_policy_rules=(rule,)),))
    assert verdicts(world, restarting) == {"none": lacking, "restart": PASSES, "users": lacking}
    confined = pod("p").spec(host_network=True, host_users=False)
    assert verdicts(world, confined) == {"none": lacking, "restart": lacking, "users": PASSES}
    assert set(verdicts(world, pod("p").spec(host_network=True)).values()) == {PASSES}


def test_bind_mount_options_need_a_node_that_declares_them_since_1_37(each_release: Release) -> None:
    mounts = (VolumeMount(bind_mount_options=("noexec",)),)
    waiting = pod("p").spec(containers=(Container(name="c", volume_mounts=mounts),)).obj()
    gates = FeatureGates(release=each_release)
    table = ClusterTable(each_release)
    framework = Framework(default_profile(gates), table, in_tree_registry(), gates)
    for one in (node("plain"), node("able").features("VolumeBindMountOptions")):
        table.put_node(one.obj())
    rows = framework.evaluate(table.info(waiting)).feasible_rows.tolist()
    expected = ["able"] if each_release is V1_37 else ["plain", "able"]
    assert [table.names[row] for row in rows] == expected
