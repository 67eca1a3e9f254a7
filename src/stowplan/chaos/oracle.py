"""A second opinion: the same plugins on a table made from scratch, with nothing kept from before."""

from collections.abc import Iterable
from random import Random

from stowplan.api.meta import Object
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.chaos.extenders import ChaosExtender, accepts
from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.storage import Storage
from stowplan.cluster.table import ClusterTable, load
from stowplan.framework.framework import Framework
from stowplan.framework.trials import Nominations
from stowplan.scheduler import Scheduler


class Oracle:
    """Says which nodes can take a pod, given nodes and where pods are."""

    def __init__(
        self, scheduler: Scheduler, nodes: Iterable[Node], placed: Iterable[tuple[Pod, str]]
    ) -> None:
        self._scheduler = scheduler
        self._table = ClusterTable()
        for node in nodes:
            self._table.put_node(node)
        for pod, node_name in placed:
            self._table.place(self._table.info(pod), node_name)

    def add_storage(self, objects: Iterable[Object], assumed: Iterable[Object] = ()) -> None:
        """Reckon with volumes, claims and classes, and with what is assumed of them."""
        load(self._table, objects)
        self._table.storage.exchange_assumed(assumed)

    def feasible(self, pod: Pod, *, promised: Iterable[Pod] = (), in_bad_weather: bool = False) -> list[str]:
        """The nodes that no filter of the pod's profile rejects, and no extender's rule.

        `promised` are pods that nodes are promised to: they are reckoned with as if they were there. In bad
        weather an extender that may be passed over when it fails has no say.
        """
        settings = self._scheduler.settings
        name = pod.spec.scheduler_name
        profile = next(one for one in settings.config.profiles if one.scheduler_name == name)
        framework = Framework(
            profile, self._table, settings.registry, settings.gates, reuse=False, rng=Random(0)
        )
        evaluation = framework.screen(self._table.info(pod), self._nominations(promised))
        names = [self._table.name_of(int(row)) for row in evaluation.feasible_rows]
        asked = [
            extender.plan
            for extender in self._scheduler.context.extenders
            if isinstance(extender, ChaosExtender)
            and extender.is_interested(pod)
            and not (in_bad_weather and extender.is_ignorable)
        ]
        return [node for node in names if all(accepts(plan, pod.name, node) for plan in asked)]

    def _nominations(self, promised: Iterable[Pod]) -> Nominations:
        by_row: dict[int, list[PodInfo]] = {}
        for pod in promised:
            row = self._table.row_of(pod.status.nominated_node_name)
            if row is not None:
                by_row.setdefault(row, []).append(self._table.info(pod))
        return by_row


def told_of(storage: Storage) -> list[Object]:
    """The storage objects of a run as a scheduler has been told of them."""
    return [*storage.volumes.values(), *storage.claims.values(), *storage.classes.values()]
