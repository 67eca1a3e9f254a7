"""Exclusive placement of JobSets: pods that do not follow the leader of their Job are replaced.

Admission gives the pods of a Job the topology domain of its leader, the pod with index 0. A leader that is
replaced may find another domain, and the pods of the old one have to follow it.
"""

from typing import ClassVar, Final

from stowplan.api.catalogue import NODES, PODS
from stowplan.api.requests import Json
from stowplan.localcluster.controllerruntime.controller import BACKGROUND, Controller, ControllerContext
from stowplan.localcluster.objects.fields import (
    annotations_of,
    condition_of,
    controller_of,
    is_deleting,
    key_of,
    labels_of,
    node_of,
    spec_of,
    status_of,
    with_condition,
)
from stowplan.localcluster.objects.jobsets import EXCLUSIVE, JOB_KEY, is_leader

_TARGET: Final = "DisruptionTarget"


def _job_key(pod: Json) -> list[str]:
    key = labels_of(pod).get(JOB_KEY)
    return [key] if key and EXCLUSIVE in annotations_of(pod) else []


class ExclusivePlacementController(Controller):
    """Deletes pods of JobSets that select another topology domain than that of their leader."""

    name: ClassVar[str] = "jobset-pod-controller"
    event_source: ClassVar[str] = "jobset"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.pods = self.informer(PODS)
        self.nodes = self.informer(NODES)
        self._members = self.pods.index(_job_key)
        self.pods.add_handler(self._pod_changed)

    def _pod_changed(self, old: Json | None, new: Json | None) -> None:
        if new is not None and EXCLUSIVE in annotations_of(new) and is_leader(new) and node_of(new):
            self.queue.add(key_of(new))

    async def sync(self, key: str) -> None:
        leader = self.pods.get(key)
        if leader is None or is_deleting(leader) or not node_of(leader):
            return
        node = self.nodes.get(node_of(leader))
        topology = annotations_of(leader).get(EXCLUSIVE, "")
        domain = None if node is None else labels_of(node).get(topology)
        if domain is None:
            return
        owner = (controller_of(leader) or {}).get("uid")
        members = [pod for found in _job_key(leader) for pod in self._members[found].values()]
        followers = [
            pod for pod in members if not is_leader(pod) and (controller_of(pod) or {}).get("uid") == owner
        ]
        if all((spec_of(pod).get("nodeSelector") or {}).get(topology) == domain for pod in followers):
            return
        for pod in followers:
            await self._replace(pod)

    async def _replace(self, pod: Json) -> None:
        """Delete a pod; its condition lets pod failure policies ignore that."""
        if is_deleting(pod):
            return
        if condition_of(pod, _TARGET) is None:
            new = {
                "type": _TARGET,
                "status": "True",
                "reason": "ExclusivePlacementViolation",
                "message": "Pod violated JobSet exclusive placement policy",
            }
            conditions = with_condition(status_of(pod).get("conditions") or (), new, self.stamp())
            pod = await self.set_status(PODS, pod, {"conditions": conditions})
        await self.delete(PODS, pod, BACKGROUND)
