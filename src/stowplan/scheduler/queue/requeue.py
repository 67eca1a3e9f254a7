"""Queueing hints: whether a cluster event is worth another cycle for a rejected pod, and how soon."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from stowplan.api.gates.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.api.pod import Pod
from stowplan.scheduler.framework.events import Answer, ByPlugin, ClusterEvent, Hint, HintMap, Registered
from stowplan.scheduler.queue.families import Family, Rejection
from stowplan.scheduler.queue.in_flight import InFlightEvent
from stowplan.scheduler.queue.instrument import UNSCHEDULABLE, Hooks
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.scheduler.queue.sub_queues import ProfileRules, Strategy, SubQueues
from stowplan.scheduler.queue.waiting_group import Group, group_of

MANY: Final = 4
"""Minimum number of identical pods that are moved as one group."""

SKIPPED: Final = Answer(Hint.SKIP)

Ask = Callable[[Registered, QueuedPod, ClusterEvent, Any, Any], Answer]
"""Asks a plugin for its hint."""


def ask(entry: Registered, queued: QueuedPod, event: ClusterEvent, old: Any, new: Any) -> Answer:
    return entry.ask(queued.pod, old, new)


def worth_requeuing(
    hints: HintMap | None, queued: QueuedPod, event: ClusterEvent, old: Any, new: Any, ask: Ask = ask
) -> Strategy:
    """Requeueing strategy for a waiting pod after an event.

    Only the hints of plugins that rejected it are called. If one returns QUEUE, the pod is retried: after its
    backoff, or at once if it was only pending for that plugin. A wildcard event applies to all pods, or only
    to the pod it is about.
    """
    if not queued.rejected:
        return Strategy.AFTER_BACKOFF
    if event.is_wildcard:
        return _by_wildcard(queued, new)
    if hints is None:
        return Strategy.AFTER_BACKOFF
    return by_hints(hints.matching(event), queued, event, old, new, ask)


def by_hints(
    matching: ByPlugin, queued: QueuedPod, event: ClusterEvent, old: Any, new: Any, ask: Ask = ask
) -> Strategy:
    """Strategy according to the hints for an event, of plugins that rejected the pod."""

    def any_helps(plugins: frozenset[str]) -> bool:
        return any(
            ask(entry, queued, event, old, new).hint is Hint.QUEUE
            for plugin, entries in matching.items()
            if plugin in plugins
            for entry in entries
        )

    pending = queued.pending_plugins
    if pending and any_helps(pending):
        return Strategy.IMMEDIATELY
    if any_helps(queued.unschedulable_plugins - pending):
        return Strategy.AFTER_BACKOFF
    return Strategy.SKIP


def _by_wildcard(queued: QueuedPod, new: Any) -> Strategy:
    concerned = new is None or (isinstance(new, Pod) and new.metadata.uid == queued.uid)
    return Strategy.AFTER_BACKOFF if concerned else Strategy.SKIP


def _first_of(rejectors: frozenset[str], plugins: Iterable[str]) -> int:
    """The place of the first of some plugins that is a rejector."""
    return next(place for place, plugin in enumerate(plugins) if plugin in rejectors)


def _in_order(answered: tuple[int, Group, Strategy | None]) -> tuple[int, int]:
    """Groups go by the first plugin that rejected them, then by when they came."""
    return answered[0], answered[1].number


def _claim_named_by_all(matching: ByPlugin, old: Any, new: Any) -> str | None:
    """The claim whose users alone an event may help, as all hints say that hear of it; None: any pod."""
    found: set[str | None] = set()
    for entries in matching.values():
        for entry in entries:
            if entry.only_claim is None:
                return None
            found.add(entry.only_claim(old, new))
    return found.pop() if len(found) == 1 else None


class Requeuer:
    """Calls the hints of plugins that rejected a pod for an event, and moves the pod accordingly.

    With the gate SchedulerPreQueueingHints, plugins that can name the pods an event may help are called
    first, and other pods are skipped.
    """

    __slots__ = ("_asks_first", "_hooks", "_narrows", "_places", "_profiles")

    def __init__(
        self,
        profiles: Mapping[str, ProfileRules],
        places: SubQueues,
        hooks: Hooks,
        gates: FeatureGates = DEFAULT_GATES,
    ) -> None:
        self._profiles = profiles
        self._places = places
        self._hooks = hooks
        self._asks_first = gates["SchedulerPreQueueingHints"]
        self._narrows = not gates["CompositePodGroup"]

    def concerns_anybody(self, event: ClusterEvent) -> bool:
        """True if any plugin registered for an event."""
        return event.is_wildcard or any(rules.hints.matching(event) for rules in self._profiles.values())

    def wake_all(
        self, event: ClusterEvent, old: Any, new: Any, at_most_priority: int | None, excluding: str
    ) -> None:
        """Try pods again that an event may help, if their priority is at most the one given."""
        for_all = at_most_priority is None
        claims = self._narrowed(event, old, new) if self._asks_first else None
        narrowed = claims is not None and self._narrows
        for group, shared in self._concerned(event, old, new, shares=not narrowed):
            if claims is None or not narrowed:
                for_each = for_all and not group.has(excluding)
                verdicts = self._verdicts(group, event, old, new, for_each, shared)
            else:
                verdicts = self._verdicts_of(group.users_of_any(claims), event, old, new)
            for queued, strategy in verdicts:
                low_enough = at_most_priority is None or queued.lowest_priority <= at_most_priority
                if low_enough and queued.uid != excluding:
                    self.move(queued, strategy, event)

    def wake_updated(self, queued: QueuedPod, events: Sequence[ClusterEvent], old: Pod, new: Pod) -> None:
        """A pod that waits has changed: try it again if the plugins that rejected it think that helps."""
        self._places.unschedulable.put(queued)
        for event in events:
            strategy = self._worth(queued, event, old, new)
            if self._places.requeue(queued, strategy, event.label) != UNSCHEDULABLE:
                break

    def after(self, events: Iterable[InFlightEvent], queued: QueuedPod) -> Strategy:
        """Strategy for a pod that was rejected while these events happened."""
        found = Strategy.SKIP
        for event, old, new in events:
            strategy = self._worth(queued, event, old, new)
            if strategy is Strategy.IMMEDIATELY:
                return strategy
            if strategy is Strategy.AFTER_BACKOFF:
                found = strategy
                if not queued.pending_plugins:
                    break
        return found

    def wakers(self, queued: QueuedPod) -> list[tuple[str, ClusterEvent]]:
        """The events that the plugins that rejected a pod, or the one that holds it back, registered for."""
        rules = self._profiles.get(queued.profile)
        if rules is None:
            return []
        heard = {queued.gating_plugin} if queued.gated else queued.rejectors
        return [(entry.plugin, entry.event) for entry in rules.hints.registered if entry.plugin in heard]

    def move(self, queued: QueuedPod, strategy: Strategy, event: ClusterEvent) -> None:
        """Take a pod that waits from its place and put it where a strategy says."""
        self._places.unschedulable.remove(queued.key)
        self._places.requeue(queued, strategy, event.label)

    def _concerned(
        self, event: ClusterEvent, old: Any, new: Any, *, shares: bool
    ) -> list[tuple[Group, Strategy | None]]:
        """The groups of waiting pods that were rejected by plugins that hear of an event, in order, and what
        it means for them as far as that is known: `shares`, it may be asked for many groups at once.

        Groups that it cannot help are left out: if all that hear of it say that it concerns only the users
        of one ResourceClaim, those without such users, and those whose keys are others than the event's
        (families.py). Pods that must not be tried yet are only concerned if the plugin that holds them back
        hears of it.
        """
        unschedulable = self._places.unschedulable
        if event.is_wildcard:
            return [(group, None) for group in unschedulable.groups()]
        found: list[tuple[Group, Strategy | None]] = []
        for profile, rules in self._profiles.items() if unschedulable.pods else ():
            matching = rules.hints.matching(event)
            claim = _claim_named_by_all(matching, old, new)
            if claim is not None:
                using = unschedulable.groups_using(claim, profile, matching)
                answered: list[tuple[int, Group, Strategy | None]]
                answered = [(_first_of(group.rejectors, matching), group, None) for group in using]
            else:
                answered = list(self._answered(profile, matching, event, old, new, shares))
            answered.sort(key=_in_order)
            found += [
                (group, shared)
                for _, group, shared in answered
                if not group.gating_plugin or group.gating_plugin in matching
            ]
        return found

    def _answered(
        self, profile: str, matching: ByPlugin, event: ClusterEvent, old: Any, new: Any, shares: bool
    ) -> Iterator[tuple[int, Group, Strategy | None]]:
        """The groups of a profile that an event may help, with the place of the first plugin that rejected
        them among those that hear of it, and what it means for them if that was asked for many at once.
        """
        unschedulable = self._places.unschedulable
        families = unschedulable.families
        itself = [
            group_of(queued)
            for obj in (old, new)
            if isinstance(obj, Pod) and (queued := unschedulable.get(obj.key)) is not None
        ]
        if not shares:
            found = families.of(profile, matching)
        else:
            found = families.concerned(profile, matching, old, new)
            for family in map(families.of_group, itself):
                if family.profile == profile and not family.rejectors.isdisjoint(matching):
                    found[family.key] = family
            self._count_unasked(profile, found.values(), matching, event)
        for family in found.values():
            if family.gating_plugin and family.gating_plugin not in matching:
                continue
            shared = None
            others = [group for group in family.groups.values() if group not in itself] if itself else None
            count = len(family.groups) if others is None else len(others)
            if shares and count:
                one = next(iter(family.groups.values())) if others is None else others[0]
                if self._ignores_labels(one, matching, old, new):
                    shared = self._worth_for(one.representative, event, old, new, count)
            if shared is Strategy.SKIP and not itself:
                continue
            first = _first_of(family.rejectors, matching)
            for group in family.groups.values():
                answer = None if group in itself else shared
                if answer is not Strategy.SKIP:
                    yield first, group, answer

    @staticmethod
    def _ignores_labels(group: Group, matching: ByPlugin, old: Any, new: Any) -> bool:
        """True if all hints involved give one answer for all groups that differ from this one in labels
        alone."""
        if group.template is None:
            return False
        pod = group.representative.pod
        return all(
            entry.is_blind(pod, old, new)
            for plugin, entries in matching.items()
            if plugin in group.rejectors
            for entry in entries
        )

    def _verdicts(
        self, group: Group, event: ClusterEvent, old: Any, new: Any, for_all: bool, shared: Strategy | None
    ) -> Iterator[tuple[QueuedPod, Strategy]]:
        """Pods of a group that an event may help; `for_all`: only an answer for the whole group counts.
        `shared`: the strategy for the whole group, if it is known.

        If possible, hints are called once per group and all pods are moved together. Many hints treat the pod
        that the event is about specially, so they are called pod by pod for a group that contains it. Where
        only the users of one ResourceClaim are concerned, the other pods are skipped.
        """
        itself: set[str] = set()
        if shared is None:
            itself = {obj.key for obj in (old, new) if isinstance(obj, Pod)} & group.pods.keys()
            if not itself and self._is_shared(group, event):
                shared = self._worth(group.representative, event, old, new)
        if shared is None:
            claim = None if itself else self._only_claim(group, event, old, new)
            concerned = list(group.pods.values()) if claim is None else group.users_of(claim)
            yield from self._verdicts_of(concerned, event, old, new)
        elif shared is Strategy.SKIP:
            return
        elif for_all and len(group.pods) >= MANY and self._places.moves_as_one(group, event.label):
            for queued in self._held(group):
                yield queued, shared
            if group.pods:
                self._places.move_group(group, shared, event.label)
        else:
            for queued in self._not_held(group, event) if for_all else list(group.pods.values()):
                yield queued, shared

    def _verdicts_of(
        self, concerned: Iterable[QueuedPod], event: ClusterEvent, old: Any, new: Any
    ) -> Iterator[tuple[QueuedPod, Strategy]]:
        for queued in concerned:
            strategy = self._worth(queued, event, old, new)
            if strategy is not Strategy.SKIP:
                yield queued, strategy

    def _narrowed(self, event: ClusterEvent, old: Any, new: Any) -> set[str] | None:
        """The claims whose users alone an event may help, if a plugin says so; None: any pod."""
        if event.is_wildcard or (old is None and new is None):
            return None
        found: set[str] = set()
        for rules in self._profiles.values():
            for plugin, entries in rules.hints.matching(event).items():
                for only_claim in [entry.only_claim for entry in entries if entry.only_claim is not None]:
                    claim = only_claim(old, new)
                    if self._hooks.narrowed is not None:
                        self._hooks.narrowed(plugin, claim is not None)
                    if claim is None:
                        return None
                    found.add(claim)
        return found or None

    def _held(self, group: Group) -> list[QueuedPod]:
        """Pods of a group that are not gated yet but will be by some plugin."""
        gating = self._profiles[group.profile].pre_enqueue
        held = [uids for plugin in gating if (uids := plugin.held_pods())]
        if len(held) < 2:
            return group.among(held[0]) if held else []
        return group.among(frozenset().union(*held))

    def _not_held(self, group: Group, event: ClusterEvent) -> list[QueuedPod]:
        """The pods of a group but for those that the plugin that gates it is sure to hold back again.

        With a log that tells of every pod at its gate all are moved.
        """
        pods = group.pods
        if not group.gating_plugin or self._places.logs_gates:
            return list(pods.values())
        gating = self._profiles[group.profile].pre_enqueue
        held = next((plugin.held_pods() for plugin in gating if plugin.name == group.gating_plugin), None)
        if not held:
            return list(pods.values())
        found = group.without(held)
        if self._hooks.stayed_gated is not None and len(found) < len(pods):
            self._hooks.stayed_gated(event.label, len(pods) - len(found))
        return found

    def _is_shared(self, group: Group, event: ClusterEvent) -> bool:
        """True if all hints involved give one answer for all pods of a group."""
        if event.is_wildcard:
            return False
        matching = self._profiles[group.profile].hints.matching(event)
        return all(
            entry.by_template
            for plugin, entries in matching.items()
            if plugin in group.rejectors
            for entry in entries
        )

    def _only_claim(self, group: Group, event: ClusterEvent, old: Any, new: Any) -> str | None:
        """The claim whose users alone an event may help, as all hints to ask say; None: any pod."""
        if event.is_wildcard:
            return None
        matching = self._profiles[group.profile].hints.matching(event)
        found = {
            None if entry.only_claim is None else entry.only_claim(old, new)
            for plugin, entries in matching.items()
            if plugin in group.rejectors
            for entry in entries
        }
        return found.pop() if len(found) == 1 else None

    def _worth(self, queued: QueuedPod, event: ClusterEvent, old: Any, new: Any) -> Strategy:
        rules = self._profiles.get(queued.profile)
        return worth_requeuing(rules.hints if rules else None, queued, event, old, new, self._ask)

    def _worth_for(self, queued: QueuedPod, event: ClusterEvent, old: Any, new: Any, count: int) -> Strategy:
        """Strategy for a pod that represents `count` groups; hints count as if called for each."""

        def ask(entry: Registered, queued: QueuedPod, event: ClusterEvent, old: Any, new: Any) -> Answer:
            answer = self._ask(entry, queued, event, old, new)
            if hooks.same_hint is not None:
                hooks.same_hint(entry.plugin, event, answer, count - 1)
            return answer

        hooks = self._hooks
        if count == 1 or hooks.same_hint is None:
            return self._worth(queued, event, old, new)
        return worth_requeuing(self._profiles[queued.profile].hints, queued, event, old, new, ask)

    def _count_unasked(
        self, profile: str, asked: Iterable[Family], matching: ByPlugin, event: ClusterEvent
    ) -> None:
        """Count hints for groups that an event cannot help, as if they had been asked."""
        if self._hooks.same_hint is None:
            return
        if all(entry.keys is None for entries in matching.values() for entry in entries):
            return
        seen: Counter[Rejection] = Counter()
        for family in asked:
            seen[family.rejection] += len(family.groups)
        for rejection, size in self._places.unschedulable.families.sizes(profile):
            unasked = size - seen[rejection]
            _, unschedulable, pending, gating_plugin = rejection
            if unasked and (not gating_plugin or gating_plugin in matching):
                rejectors = unschedulable | pending
                for plugin in matching:
                    if plugin in rejectors:
                        for _ in matching[plugin]:
                            self._hooks.same_hint(plugin, event, SKIPPED, unasked)

    def _ask(self, entry: Registered, queued: QueuedPod, event: ClusterEvent, old: Any, new: Any) -> Answer:
        hooks = self._hooks
        if hooks.before_hint is not None:
            hooks.before_hint(entry.plugin, event)
        answer = entry.ask(queued.pod, old, new)
        if hooks.after_hint is not None:
            hooks.after_hint(entry.plugin, event, answer)
        return answer
