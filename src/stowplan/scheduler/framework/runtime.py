"""The framework runtime: one profile's plugins, run from PreFilter to Score over the cluster table.

Results are kept per equivalence class of pods and refreshed only where something changed. The extension
points after Score are in extension_points.py.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import count
from random import Random
from typing import Any, Final, NamedTuple

import numpy as np

from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.scheduler.framework.budget import AT_ONCE, Budget, standing_still
from stowplan.scheduler.framework.contract import Signs
from stowplan.scheduler.framework.cycle_state import Cycle
from stowplan.scheduler.framework.evaluation import Evaluation, PreFiltering
from stowplan.scheduler.framework.extension_points import (
    count_calls,
    describe_failure,
    guarded,
)
from stowplan.scheduler.framework.instrument import Probe
from stowplan.scheduler.framework.interface import (
    UNSIGNED,
    ExtensionPoint,
    Handle,
    Plugin,
    Services,
    Traits,
    Unsigned,
)
from stowplan.scheduler.framework.known_objects import Lookup
from stowplan.scheduler.framework.nominations import NO_NOMINATIONS, Nominations
from stowplan.scheduler.framework.pod_groups.placement import PlacementCycle
from stowplan.scheduler.framework.profile import ProfileSpec
from stowplan.scheduler.framework.protocols import (
    AssumePlugin,
    GroupMemberPlugin,
    PreEnqueuePlugin,
    QueueSortPlugin,
)
from stowplan.scheduler.framework.registry import Registry
from stowplan.scheduler.framework.resizes import leave_out_deferred_resizes
from stowplan.scheduler.framework.reuse.equivalence_class import (
    ClassKey,
    ClassKeys,
    EquivalenceClass,
    EquivalenceClasses,
)
from stowplan.scheduler.framework.reuse.filter_results import FilterColumn, FilterResults, SharedCodes
from stowplan.scheduler.framework.reuse.pre_filter import FixedAnswers, pre_filter, pre_score
from stowplan.scheduler.framework.reuse.score_results import ScoreColumn, ScoreResults
from stowplan.scheduler.framework.simulation import Simulations, filter_with_nominated_pods, try_nominated
from stowplan.scheduler.framework.status import Code, PluginError
from stowplan.scheduler.table.columns import BoolColumn, IntColumn
from stowplan.scheduler.table.podinfo import PodInfo, PodTemplate
from stowplan.scheduler.table.table import ClusterTable

_serials = count()
_VOLUMES: Final = Signs.VOLUMES
_MOST_PROFILES = 16
"""Replaced profiles leave their keys in templates: beyond this number all keys are computed again."""


class _Latest(NamedTuple):
    """The class of the last pod, and what made it one: most pods come right after another one like them.

    `signatures` are those of the plugins that look beyond the template.
    """

    template: PodTemplate
    version: int
    signatures: tuple[Hashable, ...]
    pod_class: EquivalenceClass


class Framework:
    """The plugins of one profile and what is kept of their answers.

    `evaluate` is the heart: which nodes can take a pod, and how good each of them is. It neither waits nor
    changes the table. With `reuse=False` every answer is computed from scratch, which is slow and must give
    the same results. `class_memory` bounds what is kept for reuse, in bytes. `rng` is the chance that plugins
    may use; without one it is the same in every run. `services` is what plugins can use of a living
    scheduler, `lookup` finds objects by kind where there is none, `probe` watches how long everything takes.
    `timer` measures budgets, by default the probe's.
    """

    def __init__(
        self,
        profile: ProfileSpec,
        table: ClusterTable,
        registry: Registry,
        gates: FeatureGates | None = None,
        *,
        reuse: bool = True,
        class_memory: int = 512 << 20,
        rng: Random | None = None,
        services: Services | None = None,
        probe: Probe | None = None,
        timer: Callable[[], float] | None = None,
        lookup: Lookup | None = None,
    ) -> None:
        self.profile = profile
        self.table = table
        self._registry = registry
        self._gates = gates
        self._services = services
        self._lookup = lookup
        self.probe = probe
        self._reuse = reuse
        self._serial = next(_serials)
        gates = FeatureGates(release=table.release) if gates is None else gates
        if gates.release.name != table.release.name:
            raise ValueError(f"the table is of {table.release}, the feature gates are of {gates.release}")
        if gates.pod_groups:
            table.groups.enable(composite=gates["CompositePodGroup"])
        self.timer = timer or (standing_still if probe is None else probe.timer)
        self._hurries = False
        handle = Handle(table, gates, rng or Random(0), services, self.timer, lookup)
        self.plugins: dict[str, Plugin] = registry.instantiate(profile, handle)
        leave_out_deferred_resizes(self.plugins.values(), gates)
        self._trusted = registry.own
        self._traits = {
            name: Traits(plugin, trusted=name in registry.own) for name, plugin in self.plugins.items()
        }
        if any(self._traits[name].reads_usage for name in self.plugins.keys() - self._trusted):
            table.pods_are_read = True
        self._classes = EquivalenceClasses(self.plugins, class_memory)
        self._latest: _Latest | None = None
        self._keys = ClassKeys()
        self._pre_filters = self.at(ExtensionPoint.PRE_FILTER)
        self._filters = self.at(ExtensionPoint.FILTER)
        self._filters_with_traits = [(plugin, self._traits[plugin.name]) for plugin in self._filters]
        self._pre_scores = self.at(ExtensionPoint.PRE_SCORE)
        self._scores = self.at(ExtensionPoint.SCORE)
        self._weights = {use.name: use.weight for use in profile.plugins.get(ExtensionPoint.SCORE, ())}
        self._pre_filter_names = tuple(plugin.name for plugin in self._pre_filters)
        self._filter_names = tuple(plugin.name for plugin in self._filters)
        self._pre_score_names = tuple(plugin.name for plugin in self._pre_scores)
        self._score_names = tuple(plugin.name for plugin in self._scores)
        involved = {
            plugin.name: plugin
            for plugin in (*self._pre_filters, *self._filters, *self._pre_scores, *self._scores)
        }
        self._of_members: list[Any] = [p for p in involved.values() if isinstance(p, GroupMemberPlugin)]
        self.assuming = [
            plugin
            for plugin in involved.values()
            if plugin.contract.changes_assumed_pods and isinstance(plugin, AssumePlugin)
        ]
        signing = [(plugin, plugin.contract.signs) for plugin in involved.values()]
        self._by_shape = [plugin for plugin, signs in signing if signs is Signs.TEMPLATE_WITHOUT_LABELS]
        self._by_labels = [plugin for plugin, signs in signing if signs is Signs.TEMPLATE]
        self._fixed: FixedAnswers = {}
        self._shared_codes = SharedCodes()
        self._shared_filters = {
            plugin.name: place
            for place, plugin in enumerate(self._by_shape, start=1)
            if plugin in self._filters and SharedCodes.has(plugin, self._traits[plugin.name])
        }
        """Filters whose answers are shared, with the place of what they read in the signature."""
        self._by_pod = [p for p in involved.values() if p not in self._by_shape and p not in self._by_labels]
        self._by_plain_pod = [plugin for plugin, signs in signing if signs is Signs.POD]

    def clone_for_explain(self, rng: Random, class_memory: int = 64 << 20) -> "Framework":
        """Another framework of the profile over the same table; its results and chance are its own.

        It answers while a scheduler waits, so its filters have little time unless they are given a budget.
        """
        profile, table, registry, gates = self.profile, self.table, self._registry, self._gates
        services, timer = self._services, self.timer
        twin = Framework(
            profile,
            table,
            registry,
            gates,
            class_memory=class_memory,
            rng=rng,
            services=services,
            timer=timer,
            lookup=self._lookup,
        )
        twin._hurries = True
        return twin

    def at(self, point: ExtensionPoint) -> list[Plugin]:
        """The plugins of an extension point, in the order they run."""
        return [
            self.plugins[use.name] for use in self.profile.plugins.get(point, ()) if use.name in self.plugins
        ]

    def gating(self) -> list[Plugin]:
        """The PreEnqueue plugins, in the order they run."""
        return [p for p in self.at(ExtensionPoint.PRE_ENQUEUE) if isinstance(p, PreEnqueuePlugin)]

    def sorting(self) -> Plugin:
        """The plugin that orders the queue."""
        [sorter] = [p for p in self.at(ExtensionPoint.QUEUE_SORT) if isinstance(p, QueueSortPlugin)]
        return sorter

    @property
    def reuses(self) -> bool:
        """True if results for one pod may be used for another."""
        return self._reuse

    def trusts(self, plugins: Iterable[str]) -> bool:
        """True if all these plugins are part of this project."""
        return self._trusted.issuperset(plugins)

    def sizes(self) -> dict[str, int]:
        """Number of entries of every table of the profile, by name."""
        return {"signatures": len(self._keys), **self._classes.sizes()}

    def forget_classes(self) -> None:
        """Drop everything kept for reuse; called before a profile is replaced."""
        self._latest = None
        self._classes.clear()
        self._shared_codes = SharedCodes()

    def drop_stale(self) -> None:
        """Have plugins free what they keep of objects that are gone."""
        for plugin in self.plugins.values():
            plugin.drop_stale()

    # The scheduling of one pod, up to the choice

    def evaluate(
        self, pod: PodInfo, nominations: Nominations = NO_NOMINATIONS, nominated_row: int | None = None
    ) -> Evaluation:
        """Filter and score every node for a pod: `run_filters`, then `run_scores` what passed."""
        evaluation = self.run_filters(pod, nominations, nominated_row)
        self.run_scores(evaluation)
        return evaluation

    def run_filters(
        self,
        pod: PodInfo,
        nominations: Nominations = NO_NOMINATIONS,
        nominated_row: int | None = None,
        placement: PlacementCycle | None = None,
        budget: Budget | None = None,
    ) -> Evaluation:
        """Filter every node for a pod.

        `nominations` are the nominated pods by row: a row must be able to take the pod with and without those
        of at least its priority. `nominated_row` is the row of this pod's own nominated node: if it passes,
        it is the only one considered. `placement` is where the group is tried that the pod belongs to: other
        nodes are not looked at. `budget` is the time that the attempt may take. Raises PluginError if a
        plugin fails, and LongSearchError if one has to work ahead and the budget allows for a pause.
        """
        pod_class = self._class_of(pod)
        cycle = Cycle(self.table, pod, pod_class.memos)
        cycle.budget = Budget(self.timer, AT_ONCE) if budget is None and self._hurries else budget
        probe = self.probe
        if probe is not None and probe.begins():
            cycle.watch = probe
        if placement is not None:
            cycle.placement, cycle.group = placement, placement.group_cycle
        try:
            evaluation = self._run_filters(cycle, pod_class, nominations, nominated_row)
            if placement is not None:
                for plugin in self._of_members:
                    guarded(plugin, "Filter", plugin.member_filtered, cycle, evaluation)
        except BaseException:
            self._classes.drop(pod_class)
            raise
        if not evaluation.feasible_count:
            cycle.evaluation = evaluation
            self._let_go(evaluation)
        return evaluation

    def run_scores(self, evaluation: Evaluation) -> None:
        """Score the nodes that passed, if there is a choice. Ends the evaluation: no further plugin runs.

        Between `run_filters` and this, `Evaluation.leave_out` may remove nodes. Raises PluginError.
        """
        cycle, pod_class = evaluation.cycle, evaluation.pod_class
        if evaluation.ended:
            return
        try:
            if evaluation.only_row is None:
                self._score(cycle, pod_class, evaluation)
        except BaseException:
            self._classes.drop(pod_class)
            raise
        if not evaluation.feasible_count:
            cycle.evaluation = evaluation
        self._let_go(evaluation)

    def _score(self, cycle: Cycle, pod_class: EquivalenceClass, evaluation: Evaluation) -> None:
        filters = pod_class.filters
        cycle.feasible = filters.feasible
        cycle.feasible_count = filters.count
        cycle.feasible_version = filters.version
        if filters.count <= 1:
            return
        probe = self.probe
        began = probe.timer() if probe is not None else 0.0
        pre_score(self._pre_scores, cycle, pod_class, self._fixed)
        if probe is not None:
            now = probe.timer()
            probe.took["PreScore", "Success"](now - began)
            count_calls(probe, pod_class, "PreScore", self._pre_score_names, cycle.skipped_score, 1)
            began = now
        scores = pod_class.scores
        if not scores.is_started:
            scores.start(self._score_columns(pod_class))
        scores.sync(cycle)
        evaluation.scored = True
        if probe is not None:
            probe.took["Score", "Success"](probe.timer() - began)
            count_calls(probe, pod_class, "Score", self._score_names, cycle.skipped_score, filters.count)

    def _let_go(self, evaluation: Evaluation) -> None:
        """Keep of an evaluation that is over only what the next pod of the class can use."""
        evaluation.ended = True
        if not self._reuse:
            self._classes.drop(evaluation.pod_class)
        elif evaluation.pod_class.unsigned:
            self._let_go_unsigned(evaluation.pod_class)

    def _run_filters(
        self, cycle: Cycle, pod_class: EquivalenceClass, nominations: Nominations, nominated_row: int | None
    ) -> Evaluation:
        probe = self.probe
        began = probe.timer() if probe is not None else 0.0
        pre_filtering = pre_filter(self._pre_filters, cycle, pod_class, self._fixed)
        if probe is not None:
            code = Code.SUCCESS if pre_filtering.status is None else pre_filtering.status.code
            now = probe.timer()
            probe.took["PreFilter", code.label](now - began)
            count_calls(probe, pod_class, "PreFilter", self._pre_filter_names, cycle.skipped, 1)
            began = now
        if pre_filtering.status is not None:
            return Evaluation(self, cycle, pod_class, pre_filtering, nominations=nominations)
        evaluation = self._filter(cycle, pod_class, pre_filtering, nominations, nominated_row)
        if probe is not None:
            probe.took["Filter", "Success"](probe.timer() - began)
            count_calls(probe, pod_class, "Filter", self._filter_names, cycle.skipped, self.table.node_count)
        return evaluation

    def _filter(
        self,
        cycle: Cycle,
        pod_class: EquivalenceClass,
        pre_filtering: PreFiltering,
        nominations: Nominations,
        nominated_row: int | None,
    ) -> Evaluation:
        filters = pod_class.filters
        if not filters.columns:
            filters.start(self._filter_columns(pod_class))
        placement = cycle.placement
        inside = None if placement is None else placement.placement.mask(self.table)
        if pre_filtering.node_names is not None or inside is not None or filters.is_restricted:
            filters.restrict(self._rows_named(pre_filtering.node_names), inside)
        filters.sync(cycle)
        evaluation = Evaluation(self, cycle, pod_class, pre_filtering, nominations=nominations)
        if nominated_row is None:
            if nominations:
                self._leave_room(evaluation, nominations)
            return evaluation
        if nominated_row in nominations:
            self._leave_room(evaluation, {nominated_row: nominations[nominated_row]}, nominated_row)
        status = try_nominated(self, evaluation, nominated_row)
        if status is None:
            evaluation.keep_to(nominated_row)
        else:
            evaluation.pre_filtering = pre_filtering._replace(
                rejectors=pre_filtering.rejectors | {status.plugin}
            )
            self.consider_others(evaluation, nominated_row)
        return evaluation

    def consider_others(self, evaluation: Evaluation, nominated_row: int) -> None:
        """The nominated node of a pod cannot take it: consider all nodes."""
        if evaluation.nominations:
            self._leave_room(evaluation, evaluation.nominations, but=nominated_row)
        evaluation.keep_to(None)

    def _leave_room(
        self,
        evaluation: Evaluation,
        nominations: Nominations,
        nominated_row: int | None = None,
        but: int | None = None,
    ) -> None:
        """Remove nodes that could not take the pod together with the pods nominated to them, except one."""
        overruled = filter_with_nominated_pods(
            self, evaluation.cycle, evaluation.pod_class, nominations, nominated_row, but
        )
        evaluation.overruled.update(overruled)
        evaluation.keep_to(None)

    # Classes

    def _let_go_unsigned(self, pod_class: EquivalenceClass) -> None:
        """Drop the memos of plugins that could not sign the pod: they are of no use to the next one."""
        for name in pod_class.unsigned:
            memo = pod_class.memos.pop(name, None)
            if memo is not None:
                self.plugins[name].release(memo)

    def _class_of(self, pod: PodInfo) -> EquivalenceClass:
        """The class of a pod, found or begun."""
        latest = self._latest
        template = pod.template
        signing = self._signing(pod)
        signatures = tuple([_signature(plugin, pod) for plugin in signing]) if signing else ()
        if (
            latest is not None
            and template is latest.template
            and signatures == latest.signatures
            and self.table.lookups.groups_version == latest.version
            and self.table.capacity == latest.pod_class.capacity
            and not latest.pod_class.released
        ):
            return latest.pod_class
        key, by_template = self._template_key(pod)
        unsigned = list(by_template)
        if signing:
            unsigned += [
                plugin.name for plugin, part in zip(signing, signatures, strict=True) if part is UNSIGNED
            ]
            key = (key, signatures)
        pod_class = self._classes.get(key) if self._reuse else None
        if pod_class is not None and pod_class.capacity != self.table.capacity:
            self._classes.drop(pod_class)
            pod_class = None
        if pod_class is None:
            pod_class = self._new_class(key, frozenset(unsigned))
            self._classes.put(pod_class)
        else:
            self._latest = _Latest(template, self.table.lookups.groups_version, signatures, pod_class)
        return pod_class

    def common_class(self, pods: Sequence[PodInfo]) -> Hashable:
        """The key of the class that pods have in common: a result for one of them holds for all.

        None if they belong to several, or if no result is reused. Labels that no plugin reads make their
        templates differ, but not their class.
        """
        first = pods[0]
        key, unsigned = self._template_key(first)
        signing = self._signing(first)
        signatures = [_signature(plugin, first) for plugin in signing]
        alike = (
            not unsigned
            and UNSIGNED not in signatures
            and all(
                (pod.template is first.template or self._template_key(pod)[0] is key)
                and self._signing(pod) is signing
                and [_signature(plugin, pod) for plugin in signing] == signatures
                for pod in pods
            )
        )
        return (key, *signatures) if alike else None

    def _signing(self, pod: PodInfo) -> list[Plugin]:
        """The plugins that look at more of a pod than its template."""
        return self._by_pod if pod.template.volumes or pod.pod.spec.node_name else self._by_plain_pod

    def copies(self, evaluation: Evaluation) -> IntColumn | None:
        """By row, how many pods like that of an evaluation the filters pass one after the other.

        None if that cannot be told: a filter goes by more than the row, or does not know it. The evaluation
        must be the last one.
        """
        if evaluation.rejected_outright is not None or not self._trusted.issuperset(self._pre_filter_names):
            return None
        cycle = evaluation.cycle
        counts: IntColumn = np.zeros(self.table.capacity, dtype=np.int64)
        rows = evaluation.feasible_rows
        fitting = np.full(len(rows), np.iinfo(np.int64).max, dtype=np.int64)
        limited = False
        for column in evaluation.filters():
            if not column.reusable:
                return None
            if not column.traits.watches:
                continue
            count = column.traits.filter_copies if column.traits.row_local else None
            found = None if count is None else column.call(count, cycle, rows)
            if found is None:
                return None
            limited = True
            np.minimum(fitting, found, out=fitting)
        if not limited:
            return None
        counts[rows] = fitting
        return counts

    def _template_key(self, pod: PodInfo) -> tuple[Hashable, tuple[str, ...]]:
        """The part of the signature that all pods of a template share, worked out once for them, and the
        plugins that could not give theirs."""
        kept = pod.template.class_keys.get(self._serial)
        version = self.table.lookups.groups_version
        if kept is not None and kept[0] == version:
            return kept[1]
        shape = self._shape_key(pod, version)
        by_labels = [_signature(plugin, pod) for plugin in self._by_labels]
        key = self._keys.of((shape, *by_labels))
        unsigned: tuple[str, ...] = ()
        if UNSIGNED in shape.parts or UNSIGNED in by_labels:
            signed = zip((*self._by_shape, *self._by_labels), (*shape.parts[1:], *by_labels), strict=True)
            unsigned = tuple(plugin.name for plugin, part in signed if part is UNSIGNED)
        if len(pod.template.class_keys) >= _MOST_PROFILES:
            pod.template.class_keys.clear()
        pod.template.class_keys[self._serial] = (version, (key, unsigned))
        return key, unsigned

    def _shape_key(self, pod: PodInfo, version: int) -> ClassKey:
        """The part of the signature that all pods share that differ in labels only."""
        signatures = pod.template.shape.signatures
        kept = signatures.get(self._serial)
        if kept is not None and kept[0] == version:
            known: ClassKey = kept[1]
            return known
        deferred = pod.template.resize_deferred
        key = self._keys.of((deferred, *[_signature(plugin, pod) for plugin in self._by_shape]))
        if len(signatures) >= _MOST_PROFILES:
            signatures.clear()
        signatures[self._serial] = (version, key)
        return key

    def _new_class(self, key: Hashable, unsigned: frozenset[str]) -> EquivalenceClass:
        table = self.table
        return EquivalenceClass(key, unsigned, table.capacity, FilterResults(table), ScoreResults(table))

    def _filter_columns(self, pod_class: EquivalenceClass) -> list[FilterColumn]:
        """Columns for the filters that take part: those that skip every pod of the class need none."""
        settled = pod_class.settled_pre_filters
        never = settled.skipped if settled is not None else frozenset()
        filters = [plugin for plugin in self._filters if plugin.name not in never]
        signed = pod_class.key[0] if isinstance(pod_class.key, tuple) else pod_class.key
        shape = signed.parts[0] if self._reuse and isinstance(signed, ClassKey) else None
        parts = shape.parts if isinstance(shape, ClassKey) else None
        columns = []
        for index, plugin in enumerate(filters):
            traits, reusable = self._traits[plugin.name], plugin.name not in pod_class.unsigned
            place = self._shared_filters.get(plugin.name) if reusable else None
            if parts is None or place is None:
                columns.append(FilterColumn(index, plugin, traits, reusable))
            else:
                columns.append(FilterColumn(index, plugin, traits, True, self._shared_codes, parts[place]))
        return columns

    def _score_columns(self, pod_class: EquivalenceClass) -> list[ScoreColumn]:
        """Columns for the scores that take part."""
        settled = pod_class.settled_pre_scores
        never = settled.skipped if settled is not None else frozenset()
        return [
            ScoreColumn(
                plugin,
                self._traits[plugin.name],
                self._weights[plugin.name],
                plugin.name not in pod_class.unsigned,
            )
            for plugin in self._scores
            if plugin.name not in never
        ]

    # In detail

    def _rows_named(self, names: frozenset[str] | None) -> BoolColumn | None:
        if names is None:
            return None
        mask = np.zeros(self.table.capacity, dtype=np.bool_)
        for name in names:
            row = self.table.row_of(name)
            if row is not None:
                mask[row] = True
        return mask

    def simulations(
        self, attempt: Cycle, memos: Mapping[str, Any], nominations: Nominations = NO_NOMINATIONS
    ) -> Simulations:
        """For trying the pod of an attempt on single rows. `memos` is what plugins keep for its class."""
        return Simulations(
            self.table, self._pre_filters, self._filters_with_traits, attempt, memos, nominations
        )


def _signature(plugin: Plugin, pod: PodInfo) -> Hashable:
    """A plugin's signature of a pod, checked to be hashable."""
    try:
        signature = plugin.sign(pod)
        if isinstance(signature, Unsigned):
            return UNSIGNED
        hash(signature)
    except Exception as cause:
        message = f'signing a pod with plugin "{plugin.name}": {describe_failure(plugin, cause)}'
        raise PluginError(plugin.name, message) from cause
    return signature
