"""PreFilter and PreScore: plugins whose answer depends on the signature alone run once per class."""

from collections.abc import Sequence
from typing import Final

from stowplan.scheduler.framework.contract import Signs
from stowplan.scheduler.framework.cycle_state import Cycle
from stowplan.scheduler.framework.evaluation import NOTHING_SAID, PreFiltering
from stowplan.scheduler.framework.extension_points import call_plugin, checked_pre_filter, plugin_error
from stowplan.scheduler.framework.interface import Plugin
from stowplan.scheduler.framework.reuse.equivalence_class import EquivalenceClass, Settled
from stowplan.scheduler.framework.status import SKIP_CLASS, Code, Status, unresolvable

_VOLUMES: Final = Signs.VOLUMES

_Circumstances = tuple[str, frozenset[str], bool, tuple[str, ...]]
"""Key of the answers that hold for a class: the point, the plugins that could not sign, no volumes, plugins
that skip for the same pods."""
FixedAnswers = dict[_Circumstances, tuple[frozenset[str], tuple[Plugin, ...]]]
"""By that, the names of plugins that are not asked again for pods of the class, and the others."""


def pre_filter(
    plugins: Sequence[Plugin], cycle: Cycle, pod_class: EquivalenceClass, known: FixedAnswers
) -> PreFiltering:
    """Combined result of PreFilter plugins. Raises PluginError if one fails."""
    settled = pod_class.settled_pre_filters
    asked = plugins
    skipping: tuple[str, ...] = ()
    if settled is not None:
        cycle.adopt(settled.states)
        asked = settled.asking
    elif not cycle.pod.template.volumes and not pod_class.unsigned:
        asked = [plugin for plugin in plugins if plugin.contract.signs is not _VOLUMES]
        skipping = tuple([plugin.name for plugin in plugins if plugin.contract.signs is _VOLUMES])
    result = NOTHING_SAID
    alike: list[Plugin] = []
    complete = True
    for plugin in asked:
        answer = call_plugin(plugin, "PreFilter", plugin.pre_filter, cycle, cycle.pod)
        if answer is None:
            continue
        if not isinstance(answer, Status):
            answer = checked_pre_filter(plugin, answer)
            complete = complete and not plugin.contract.constant_pre_filter
            result = _narrowed(result, plugin, answer.node_names)
            if result.status is not None:
                break
        elif answer.code is Code.SKIP:
            skipping += (plugin.name,)
            if answer is SKIP_CLASS:
                alike.append(plugin)
        elif answer.code.is_rejection:
            result = result._replace(status=answer.by(plugin.name))
            if answer.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                break
        elif answer.code is not Code.SUCCESS:
            raise plugin_error(plugin, "PreFilter", answer.message)
    if settled is not None:
        cycle.skipped = settled.skipped_with(skipping)
        return result
    cycle.skipped = frozenset(skipping)
    if complete and result.status is None:
        pod_class.settled_pre_filters = _settle(
            cycle, pod_class, plugins, alike, "constant_pre_filter", known
        )
    return result


def pre_score(
    plugins: Sequence[Plugin], cycle: Cycle, pod_class: EquivalenceClass, known: FixedAnswers
) -> None:
    """Ask PreScore plugins. Raises PluginError if one fails."""
    settled = pod_class.settled_pre_scores
    asked = plugins
    if settled is not None:
        cycle.adopt_score(settled.states)
        asked = settled.asking
    skipping: tuple[str, ...] = ()
    alike: list[Plugin] = []
    for plugin in asked:
        answer: Status | None = call_plugin(plugin, "PreScore", plugin.pre_score, cycle, cycle.pod)
        if answer is None or answer.code is Code.SUCCESS:
            continue
        if answer.code is not Code.SKIP:
            raise plugin_error(plugin, "PreScore", answer.message)
        skipping += (plugin.name,)
        if answer is SKIP_CLASS:
            alike.append(plugin)
    if settled is not None:
        cycle.skipped_score = settled.skipped_with(skipping)
        return
    cycle.skipped_score = frozenset(skipping)
    pod_class.settled_pre_scores = _settle(cycle, pod_class, plugins, alike, "constant_pre_score", known)


def _narrowed(result: PreFiltering, plugin: Plugin, names: frozenset[str]) -> PreFiltering:
    """Only nodes that every such plugin asks for are looked at."""
    rejectors = result.rejectors | {plugin.name}
    left = names if result.node_names is None else result.node_names & names
    status = result.status
    if not left:
        asked = sorted(rejectors)
        if len(asked) == 1:
            reason = f"node(s) didn't satisfy plugin {asked[0]}"
        else:
            reason = f"node(s) didn't satisfy plugin(s) [{' '.join(asked)}] simultaneously"
        status = unresolvable(reason)
    return PreFiltering(status, left, rejectors)


def _settle(
    cycle: Cycle,
    pod_class: EquivalenceClass,
    plugins: Sequence[Plugin],
    alike: Sequence[Plugin],
    constant: str,
    known: FixedAnswers,
) -> Settled:
    """Consequences of the first pod's answers for the next pods of the class.

    Fixed are those of plugins that depend on the signature alone, or that skip all pods that are `alike`.
    """
    unsigned = pod_class.unsigned
    plain = not cycle.pod.template.volumes
    circumstances = (constant, unsigned, plain, tuple([plugin.name for plugin in alike]))
    found = known.get(circumstances)
    if found is None:
        names = frozenset(
            plugin.name
            for plugin in plugins
            if plugin.name not in unsigned
            and (
                getattr(plugin.contract, constant)
                or plugin in alike
                or (plain and plugin.contract.signs is _VOLUMES)
            )
        )
        found = known[circumstances] = (names, tuple(p for p in plugins if p.name not in names))
    fixed, asking = found
    if constant == "constant_pre_score":
        return Settled(fixed & cycle.skipped_score, cycle.score_states_of(fixed), asking, {})
    return Settled(fixed & cycle.skipped, cycle.states_of(fixed), asking, {})
