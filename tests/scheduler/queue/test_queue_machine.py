"""After any events in any order, every pod is where the plain rules say it is."""

from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from scheduler.queue.plain_queue import ACTIVE, BACKOFF, FLYING, UNSCHEDULABLE, PlainQueue
from scheduler.queue.still_queue import StoppedClock
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.scheduler.framework.events import NODE_ADD, EventRegistration, Hint, queue_if
from stowplan.scheduler.framework.interface import Plugin
from stowplan.scheduler.queue.build import queue_for
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.testing import PodBuilder, cluster, node, pod


class ByTemplate(Plugin):
    """Rejected pods are helped by nodes that give what they want; the hint is called once for equal pods."""

    by_template = True

    def filter_node(self, cycle: Any, pod: Any, node: Any) -> None:
        return None

    def events(self) -> Sequence[EventRegistration]:
        return (EventRegistration(NODE_ADD, self._hint, self.by_template),)

    def _hint(self, pod: PodInfo, old: None, new: Node) -> Hint:
        return queue_if(pod.labels["wants"] == new.metadata.labels["gives"])


class ByPod(ByTemplate):
    """The same, asked for every pod."""

    by_template = False


numbers = st.integers(0, 11)
goods = st.sampled_from("xxy")
REJECTIONS = [(), (), ("ByTemplate",), ("ByTemplate",), ("ByPod",), ("ByPod", "ByTemplate"), ("NodeName",)]
plugins = st.sampled_from([*REJECTIONS, ("SchedulingGates",)]).map(frozenset)
waiting_plugins = st.sampled_from([(), (), (), ("ByTemplate",), ("ByPod",)]).map(frozenset)
IN_QUEUE = (ACTIVE, BACKOFF, UNSCHEDULABLE)
PROFILES = [*cluster(plugins=[ByTemplate, ByPod]).frameworks.values()]


class QueueMachine(RuleBasedStateMachine):
    """Does the same to the queue and to the plain rules."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = StoppedClock()
        self.queue = queue_for(PROFILES, self.clock)
        self.plain = PlainQueue()
        self.plain.now = self.clock.now()
        self.objects: dict[str, Pod] = {}
        self.flying: dict[str, QueuedPod] = {}
        self.serial = count()

    @initialize(
        pods=st.lists(st.tuples(st.integers(0, 2), goods, plugins, waiting_plugins), min_size=2, max_size=6)
    )
    def begin(self, pods: list[tuple[int, str, frozenset[str], frozenset[str]]]) -> None:
        """Some pods have failed attempts already."""
        for priority, wants, rejected_by, pending in pods:
            self.add(priority, wants, False)
            self.pop_specific(0)
            self.reject(0, rejected_by, pending)
            self.wait(0.4)

    def pick(self, number: int, *places: str) -> str:
        return self.among(*places)[number % len(self.among(*places))]

    def among(self, *places: str) -> list[str]:
        return [name for name, record in self.plain.pods.items() if record.place in places]

    def built(self, name: str) -> PodBuilder:
        record = self.plain.pods[name]
        builder = pod(name).priority(record.priority).labels(wants=record.wants)
        return builder.gates("g") if record.gated else builder

    # Pods come, change and go

    @precondition(lambda self: len(self.plain.pods) < 8)
    @rule(priority=st.integers(0, 2), wants=goods, gated=st.sampled_from([False] * 5 + [True]))
    def add(self, priority: int, wants: str, gated: bool) -> None:
        name = f"p{next(self.serial)}"
        self.plain.add(name, priority, wants, gated)
        self.objects[name] = self.built(name).obj()
        self.queue.add(self.objects[name])

    @precondition(lambda self: any(record.gated for record in self.plain.pods.values()))
    @rule(number=numbers)
    def take_gates_away(self, number: int) -> None:
        held = [name for name, record in self.plain.pods.items() if record.gated]
        name = held[number % len(held)]
        self.plain.ungate(name)
        self.change(name, self.built(name).obj())

    @precondition(lambda self: self.among(*IN_QUEUE))
    @rule(number=numbers, note=st.text("ab", max_size=2))
    def annotate(self, number: int, note: str) -> None:
        name = self.pick(number, *IN_QUEUE)
        new = self.built(name).annotations(note=note).obj()
        self.change(name, new)
        assert self.queue.get(new.key).pod.pod is new  # type: ignore[union-attr]

    @precondition(lambda self: self.among(FLYING))
    @rule(number=numbers)
    def tolerate_in_flight(self, number: int) -> None:
        """An update that helps no pod but is kept like any event."""
        name = self.pick(number, FLYING)
        self.change(name, self.built(name).tolerates(f"t{next(self.serial)}").obj())
        for record in self.plain.at(FLYING).values():
            record.happened.append("")

    def change(self, name: str, new: Pod) -> None:
        old, self.objects[name] = self.objects[name], new
        self.queue.update(old, new)

    @precondition(lambda self: self.among(*IN_QUEUE))
    @rule(number=numbers)
    def delete(self, number: int) -> None:
        name = self.pick(number, *IN_QUEUE)
        self.queue.delete(self.objects[name])
        del self.plain.pods[name]

    # Pods are tried

    @rule(events=st.lists(goods, max_size=2), rejected_by=plugins, pending=waiting_plugins)
    def attempt(self, events: list[str], rejected_by: frozenset[str], pending: frozenset[str]) -> None:
        """A failed attempt during events."""
        before = len(self.flying)
        self.pop(1)
        for gives in events:
            self.node_comes(gives, None)
        if len(self.flying) > before:
            self.reject(-1, rejected_by, pending)

    @rule(times=st.integers(1, 3))
    def pop(self, times: int) -> None:
        for _ in range(times):
            expected = self.plain.candidates()
            may_pop = self.queue.may_pop
            queued = self.queue.pop()
            if queued is None:
                assert not expected
                return
            assert may_pop, "the scheduling loop would not have been woken"
            name = queued.pod.name
            assert name in expected
            assert not queued.gated
            assert not queued.pod.spec.scheduling_gates
            self.flying[name] = queued
            self.plain.take(name)

    @precondition(lambda self: self.among(*IN_QUEUE))
    @rule(number=numbers)
    def pop_specific(self, number: int) -> None:
        name = self.among(*IN_QUEUE)[-1 - number % len(self.among(*IN_QUEUE))]
        queued = self.queue.pop_specific(self.objects[name])
        self.plain.activate(name)
        if self.plain.pods[name].gated:
            assert queued is None
        else:
            assert queued is not None
            self.flying[name] = queued
            self.plain.take(name)

    @precondition(lambda self: self.among(FLYING))
    @rule(number=numbers)
    def bind(self, number: int) -> None:
        name = self.pick(number, FLYING)
        self.queue.done(self.flying.pop(name).uid)
        del self.plain.pods[name]

    @precondition(lambda self: self.among(FLYING))
    @rule(number=numbers, rejected_by=plugins, pending=waiting_plugins)
    def reject(self, number: int, rejected_by: frozenset[str], pending: frozenset[str]) -> None:
        name = self.pick(number, FLYING)
        both = rejected_by | pending
        self.queue.add_unschedulable_if_not_present(self.flying.pop(name), both, pending, self.objects[name])
        self.plain.reject(name, rejected_by, pending)

    @precondition(lambda self: self.among(FLYING))
    @rule(rejected_by=plugins)
    def reject_all(self, rejected_by: frozenset[str]) -> None:
        for _ in self.among(FLYING):
            self.reject(0, rejected_by, frozenset())

    # Things happen

    @rule(gives=goods, most=st.sampled_from([None, None, 0, 1]))
    def node_comes(self, gives: str, most: int | None) -> None:
        self.queue.move_all(NODE_ADD, None, node("n").labels(gives=gives).obj(), most)
        self.plain.event(gives, most)

    @precondition(lambda self: self.objects)
    @rule(number=numbers)
    def activate(self, number: int) -> None:
        name = list(self.objects)[-1 - number % len(self.objects)]
        self.queue.activate([self.objects[name]])
        self.plain.activate(name)

    # Time passes

    @rule(seconds=st.sampled_from([0.0, 0.1, 0.9, 1.0, 2.5, 7.0, 100.0, 301.0]))
    def wait(self, seconds: float) -> None:
        self.clock.pass_seconds(seconds)
        self.plain.now = self.clock.now()

    @rule()
    def flush(self) -> None:
        self.queue.flush_backoff()
        self.plain.flush_backoff()
        self.queue.flush_unschedulable()
        self.plain.flush_unschedulable()

    @precondition(lambda self: self.queue.next_deadline() is not None)
    @rule()
    def wait_until_something_is_due(self) -> None:
        deadline = self.queue.next_deadline()
        assert deadline is not None
        if deadline > self.clock.time:
            self.clock.time = self.plain.now = deadline
        due = {name for name, each in self.plain.pods.items() if each.place in (BACKOFF, UNSCHEDULABLE)}
        before = {name: (self.plain.pods[name].place, self.plain.pods[name].waits_since) for name in due}
        self.flush()
        assert any(
            before[name] != (self.plain.pods[name].place, self.plain.pods[name].waits_since) for name in due
        )

    # Invariants

    @invariant()
    def every_pod_is_in_its_place_and_in_no_other(self) -> None:
        for name, record in self.plain.pods.items():
            place = self.queue.place_of(f"default/{name}")
            if record.place == FLYING:
                assert place is None
                assert self.objects[name].metadata.uid in self.queue.in_flight
            elif record.place == UNSCHEDULABLE:
                assert place == ("gated" if self._is_held(name) else UNSCHEDULABLE)
            else:
                assert place == record.place
        waiting = [queued.pod.name for queued in self.queue]
        assert sorted(waiting) == sorted(n for n, p in self.plain.pods.items() if p.place != FLYING)
        counts = self.queue.counts()
        assert sum(counts.values()) == len(self.queue) == len(waiting)
        assert len(self.queue.in_flight) == len(self.flying)

    def _is_held(self, name: str) -> bool:
        queued = self.queue.get(f"default/{name}")
        assert queued is not None
        return queued.gated

    @invariant()
    def events_are_kept_as_long_as_somebody_may_need_them(self) -> None:
        kept = self.queue.in_flight
        needed = max((len(each.happened) for each in self.plain.at(FLYING).values()), default=0)
        assert len(kept.events) >= needed
        assert self.flying or not kept.events
        counts = kept.counts()
        assert counts.get("PodPopped", 0) == len(kept)
        assert sum(counts.values()) == len(kept) + len(kept.events)

    @invariant()
    def the_next_deadline_is_the_earliest(self) -> None:
        expected = min(self.plain.deadlines(), default=None)
        assert self.queue.next_deadline() == (
            None if expected is None else pytest.approx(expected, abs=0.001)
        )


TestQueue = QueueMachine.TestCase
TestQueue.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
