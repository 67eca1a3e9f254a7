"""All simulated kubelets of a cluster as one object."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import ClassVar

from stowplan.api.catalogue import DEVICE_CLASSES
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.client import Client
from stowplan.localcluster.controllerruntime.controller import (
    Controller,
    ControllerContext,
    ControllerManager,
)
from stowplan.localcluster.kubelets.config import KubeletSettings, NodeShape, named_nodes
from stowplan.localcluster.kubelets.devices import classes_of
from stowplan.localcluster.kubelets.nodes import NodeController, NodeState
from stowplan.localcluster.kubelets.pods import PodController
from stowplan.localcluster.kubelets.pretend import CONDITIONS
from stowplan.localcluster.objects.fields import name_of
from stowplan.runtime.clock import Clock


class DeviceClassController(Controller):
    """Makes the DeviceClasses that go with the devices of the nodes, where they are missing at the start."""

    name: ClassVar[str] = "kubelet-device-classes"
    workers: ClassVar[int] = 1

    def __init__(self, context: ControllerContext, classes: Sequence[Json]) -> None:
        super().__init__(context)
        self._classes = {name_of(one): one for one in classes}

    def start(self) -> None:
        for name in self._classes:
            self.queue.add(name)

    async def sync(self, key: str) -> None:
        try:
            await self.client.create(DEVICE_CLASSES, self._classes[key])
        except ApiError as error:
            if not error.is_already_exists:
                raise


class Kubelets:
    """Nodes of some shapes, and the pods on them.

    Nodes can be made to fall silent (as if their machine hung), to ail (they report that something is wrong),
    to recover, and to vanish for good.
    """

    def __init__(
        self,
        client: Client,
        shapes: Sequence[NodeShape],
        settings: KubeletSettings | None = None,
        *,
        clock: Clock,
        rng: Random,
        report: Callable[[str], None] = lambda text: None,
    ) -> None:
        settings = KubeletSettings() if settings is None else settings
        self.context = ControllerContext.of(client, clock, rng, report)
        devices = [group for shape in shapes for group in shape.devices]
        self._classes = DeviceClassController(self.context, classes_of(devices))
        self._nodes = NodeController(self.context, settings, named_nodes(shapes), self._wake)
        drivers = {group.driver for group in devices}
        self._pods = PodController(self.context, settings, self._nodes.is_up, drivers)
        self._manager = ControllerManager(self.context, [self._classes, self._nodes, self._pods])

    @property
    def names(self) -> list[str]:
        """The nodes there are, or are going to be."""
        return [name for name, state in self._nodes.states.items() if not state.vanished]

    async def run(self) -> None:
        """Register all nodes and be their kubelets until cancelled."""
        async with self.running():
            await asyncio.Event().wait()

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Kubelets"]:
        """Be the kubelets for as long as the block takes."""
        async with self._manager.running():
            self._pods.has_begun = True
            self._nodes.start()
            self._classes.start()
            yield self

    def _wake(self, name: str) -> None:
        self._pods.wake(name)

    # Failures of nodes

    def silence(self, name: str) -> None:
        """The node stops to answer and to renew its lease; its pods do nothing any more."""
        self._state(name).silent = True

    def ail(self, name: str, condition: str = "Ready") -> None:
        """The node reports that something is wrong: it is not ready, or it is short of something."""
        if condition not in CONDITIONS:
            raise ValueError(f"condition: expected one of {', '.join(CONDITIONS)}, got {condition!r}")
        self._state(name).unwell.add(condition)
        self._report_soon(name)

    def recover(self, name: str) -> None:
        """The node recovers and continues with its pods as they are now."""
        self._state(name).recover()
        self._nodes.queue.add(name)
        self._pods.wake(name)

    def vanish(self, name: str) -> None:
        """The machine is gone and so is its node object. Its pods stay until the pod garbage collector
        removes them."""
        self._state(name).vanished = True
        self._nodes.queue.add(name)

    def _report_soon(self, name: str) -> None:
        state = self._state(name)
        state.next_status = state.next_lease = 0.0
        self._nodes.queue.add(name)

    def _state(self, name: str) -> NodeState:
        try:
            return self._nodes.states[name]
        except KeyError:
            raise ValueError(f"node: there is no kubelet of {name!r} here") from None
