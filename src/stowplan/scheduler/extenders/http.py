"""Extenders over HTTP: JSON both ways, nodes and victims as objects or by name."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.config.build import BuiltConfig
from stowplan.config.types import Extender as ExtenderConfig
from stowplan.gocompat.quoting import quote
from stowplan.scheduler.extenders.interface import ConfiguredExtender, Filtered
from stowplan.scheduler.extenders.requests import ExtenderError, FindPod
from stowplan.scheduler.extenders.transport import Transport
from stowplan.scheduler.extenders.wire import (
    AnswerError,
    FilterAnswer,
    ObjectEncoder,
    RawNode,
    RawPod,
    VictimsAnswer,
    binding_body,
    nodes_body,
    read_bound,
    read_filtered,
    read_scores,
    read_victims,
    victims_body,
)
from stowplan.scheduler.framework.interface import Victims

T = TypeVar("T")


class HttpExtender(ConfiguredExtender):
    """An extender behind a URL.

    One that is `nodeCacheCapable` is sent names and uids, the others objects.
    """

    def __init__(
        self,
        config: ExtenderConfig,
        objects: ObjectEncoder | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        super().__init__(config)
        self._by_name = config.node_cache_capable
        self._objects = objects or ObjectEncoder()
        self._transport = Transport(config, environ)

    async def filter(self, pod: Pod, nodes: Sequence[Node]) -> Filtered:
        if not self.is_filter:
            return Filtered([node.name for node in nodes])
        body = nodes_body(pod, nodes, self._objects, names_only=self._by_name)
        answer = await self._call(self.config.filter_verb, body, read_filtered)
        if answer.error:
            raise ExtenderError(answer.error)
        if self._by_name and answer.node_names is not None:
            return Filtered(answer.node_names, answer.failed, answer.unresolvable)
        return self._filtered_objects(answer, nodes)

    async def prioritize(self, pod: Pod, nodes: Sequence[Node]) -> Mapping[str, int]:
        if not self.is_prioritizer:
            return {node.name: 0 for node in nodes}
        body = nodes_body(pod, nodes, self._objects, names_only=self._by_name)
        return await self._call(self.config.prioritize_verb, body, read_scores)

    async def bind(self, pod: Pod, node: str) -> None:
        if not self.is_binder:
            raise ExtenderError("unexpected empty bindVerb in extender")
        body = binding_body(pod, node)
        problem = await self._call(self.config.bind_verb, body, read_bound, once=True)
        if problem:
            raise ExtenderError(problem)

    async def preempt(self, pod: Pod, victims: Mapping[str, Victims], find: FindPod) -> Mapping[str, Victims]:
        if not self.supports_preemption:
            raise ExtenderError(
                f"preempt verb is not defined for extender {self.name} but run into ProcessPreemption"
            )
        body = victims_body(pod, victims, self._objects, names_only=self._by_name)
        answer = await self._call(self.config.preempt_verb, body, read_victims)
        return {node: self._found(node, chosen, find) for node, chosen in answer.items()}

    async def close(self) -> None:
        await self._transport.close()

    async def _call(
        self, verb: str, body: Mapping[str, Any], read: Callable[[bytes], T], *, once: bool = False
    ) -> T:
        answer = await self._transport.post(self.url(verb), verb, msgspec.json.encode(body), once=once)
        try:
            return read(answer)
        except AnswerError as error:
            raise ExtenderError(str(error)) from None

    def _filtered_objects(self, answer: FilterAnswer, asked: Sequence[Node]) -> Filtered:
        """The nodes that came back; those that are as they were sent stay the objects they were."""
        sent = {node.name: node for node in asked}
        nodes: list[Node] = []
        for given, text in answer.nodes or ():
            known = sent.get(given.name)
            if known is None or not _same(known, given):
                self._objects.remember(given, text)
                known = given
            nodes.append(known)
        return Filtered([node.name for node in nodes], answer.failed, answer.unresolvable, nodes)

    def _found(self, node: str, chosen: VictimsAnswer, find: FindPod) -> Victims:
        """The victims that an extender named by their uids."""
        pods: list[Pod] = []
        for uid in chosen.uids:
            try:
                pod = find(node, uid or "")
            except LookupError:
                raise ExtenderError(f"nodeinfo not found for node name {quote(node)}") from None
            if pod is None:
                told = "<nil>" if uid is None else f"&{{{uid}}}"
                raise ExtenderError(
                    f"extender: {self.name} claims to preempt pod (UID: {told}) on node: {node}, "
                    "but the pod is not found on that node"
                )
            pods.append(pod)
        return Victims(tuple(pods), chosen.violations)


def _same(sent: Node, given: Node) -> bool:
    """True if a node is unchanged, as far as its fields are known here."""
    return (
        sent.metadata.resource_version == given.metadata.resource_version
        and sent.metadata == given.metadata
        and sent.spec == given.spec
        and sent.status == given.status
    )


def extenders_for(
    built: BuiltConfig, raw_pod: RawPod | None = None, raw_node: RawNode | None = None
) -> list[HttpExtender]:
    """The extenders of a configuration in calling order.

    `raw_pod` and `raw_node` give objects with all their fields, also those stowplan has no type for, because
    an extender may use any of them. Resources with `ignoredByScheduler` were removed from the profiles when
    the configuration was built.
    """
    objects = ObjectEncoder(raw_pod, raw_node)
    return [HttpExtender(config, objects) for config in built.extenders]
