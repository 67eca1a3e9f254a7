"""For tests of plugins, ours and yours: objects in one line, and a cluster without a cluster.

    from stowplan.testing import check_plugin, cluster, node, pod

    c = cluster(nodes=[node("a").taint("gpu"), node("b")])
    assert c.schedule(pod("p").requests(cpu="100m")).node == "b"

    check_plugin(MyPlugin, nodes=[node("a").labels(price="1"), node("b").labels(price="9")])

    with live_cluster() as running:
        subprocess.run(["kubectl", "apply", "-f", "app.yaml"], env=running.env, check=True)
        running.wait_until_ready()

Builders never change: every method returns a new one, so a half-finished pod can be kept and varied.
`check_plugin` needs hypothesis, which comes with `stowplan[testing]`; it is imported when first asked for.
Begin with `builders` and `clusters`. It imports everything but `lab` and `cli`.
"""

from typing import TYPE_CHECKING, Any

from stowplan.testing.builders import NodeBuilder, PodBuilder, node, pod
from stowplan.testing.clusters import Cluster, cluster

if TYPE_CHECKING:
    from stowplan.testing.live import LiveCluster, live_cluster
    from stowplan.testing.plugin_answers import PluginCheckError
    from stowplan.testing.plugin_checks import check_plugin

__all__ = [
    "Cluster",
    "LiveCluster",
    "NodeBuilder",
    "PluginCheckError",
    "PodBuilder",
    "check_plugin",
    "cluster",
    "live_cluster",
    "node",
    "pod",
]


def __getattr__(name: str) -> Any:
    if name in ("LiveCluster", "live_cluster"):
        from stowplan.testing import live

        return getattr(live, name)
    if name not in ("PluginCheckError", "check_plugin"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from stowplan.testing import plugin_checks
    except ModuleNotFoundError as missing:
        if missing.name != "hypothesis":
            raise
        raise ImportError(f"{name} needs hypothesis: pip install 'stowplan[testing]'") from None
    return getattr(plugin_checks, name)
