"""A small cluster where only VolumeBinding has a say."""

from collections.abc import Iterable, Mapping

from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.meta import Object
from stowplan.api.pod import Pod
from stowplan.scheduler.framework.evaluation import Evaluation
from stowplan.scheduler.framework.extension_points import Lifecycle
from stowplan.scheduler.framework.interface import points_of
from stowplan.scheduler.framework.profile import PluginUse, ProfileSpec
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.framework.status import Status
from stowplan.scheduler.plugins.registry import in_tree_registry
from stowplan.scheduler.plugins.volumebinding import VolumeBinding
from stowplan.scheduler.plugins.volumebinding.plugin import VolumeBindingArgs
from stowplan.scheduler.table.table import ClusterTable, load
from stowplan.testing import node
from stowplan.testing.builders import ZONE

AFFINITY = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
NO_ROOM = "node(s) did not have enough free storage"
VOLUME_MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"

ALONE = {point: (PluginUse("VolumeBinding", 1),) for point in points_of(VolumeBinding)}


def three_zones() -> list[Object]:
    """Nodes a, b and c, each in the zone of its name."""
    return [node(name).labels({ZONE: name}).obj() for name in ("a", "b", "c")]


class World:
    """A table and a profile on it."""

    def __init__(
        self,
        objects: Iterable[Object] = (),
        *,
        nodes: Iterable[Object] | None = None,
        gates: Mapping[str, bool] | None = None,
        reuse: bool = True,
        table: ClusterTable | None = None,
    ) -> None:
        self.table = ClusterTable() if table is None else table
        if table is None:
            load(self.table, three_zones() if nodes is None else nodes)
        load(self.table, objects)
        chosen = FeatureGates(gates or {})
        profile = ProfileSpec("default-scheduler", plugins=ALONE, args={"VolumeBinding": self._args(chosen)})
        self.framework = Framework(profile, self.table, in_tree_registry(), chosen, reuse=reuse)
        self.lifecycle = Lifecycle(self.framework)

    @staticmethod
    def _args(gates: FeatureGates) -> VolumeBindingArgs:
        return VolumeBindingArgs().completed(gates)

    def evaluate(self, pod: Pod) -> Evaluation:
        return self.framework.evaluate(self.table.info(pod))

    def verdicts(self, pod: Pod) -> dict[str, tuple[str, ...]] | Status:
        """The reasons against each node, or what PreFilter said."""
        evaluation = self.evaluate(pod)
        outright = evaluation.rejected_outright
        if outright is not None:
            return outright
        names = [found.name for found in self.table.nodes if found is not None]
        rows = {name: self.table.row_of(name) for name in names}
        return {name: evaluation.status(row).reasons for name, row in rows.items() if row is not None}

    def feasible(self, pod: Pod) -> set[str]:
        """The names of the nodes that will do."""
        return {self.table.name_of(row) for row in self.evaluate(pod).feasible_rows.tolist()}

    def reserve(self, pod: Pod, on: str) -> Evaluation:
        """Have the plugin take what the pod needs on a node."""
        evaluation = self.evaluate(pod)
        status = self.lifecycle.reserve(evaluation.cycle, evaluation.cycle.pod, on)
        assert status.is_success, status
        return evaluation
