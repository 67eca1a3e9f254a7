"""PreFilter and PreScore: all plugins of a point asked in order, and what need not be asked again.

Plugins whose answer depends on the signature alone are asked for the first pod of a class only, and so are
those that skip the whole class.
"""

from collections.abc import Sequence

from stowplan.framework.cycle import Cycle
from stowplan.framework.errors import PluginError
from stowplan.framework.evaluation import NOTHING_SAID, PreFiltering
from stowplan.framework.plugin import Plugin, PreFilterResult
from stowplan.framework.podclass import PodClass, Settled
from stowplan.framework.prefilter import ask_pre_filter
from stowplan.framework.status import SKIP_CLASS, Code, Status, unresolvable


def pre_filter(plugins: Sequence[Plugin], cycle: Cycle, pod_class: PodClass) -> PreFiltering:
    """What PreFilter plugins say together. Raises PluginError if one fails."""
    settled = pod_class.settled_pre_filters
    if settled is None:
        return _first_pre_filter(plugins, cycle, pod_class)
    cycle.skipped = settled.skipped
    cycle.adopt(settled.states)
    result = NOTHING_SAID
    for plugin in settled.asking:
        answer = ask_pre_filter(plugin, cycle)
        if answer is not None:
            result, go_on = _heed(plugin, answer, cycle, result)
            if not go_on:
                break
    if cycle.skipped == pod_class.skipped:
        cycle.skipped = pod_class.skipped
    else:
        pod_class.skipped = cycle.skipped
    return result


def _first_pre_filter(plugins: Sequence[Plugin], cycle: Cycle, pod_class: PodClass) -> PreFiltering:
    """The same for the first pod of a class; what holds for the next ones too is kept with the class."""
    result = NOTHING_SAID
    complete = True
    alike: list[Plugin] = []
    for plugin in plugins:
        answer = ask_pre_filter(plugin, cycle)
        if plugin.constant_pre_filter and isinstance(answer, PreFilterResult):
            complete = False
        if answer is SKIP_CLASS:
            alike.append(plugin)
        if answer is not None:
            result, go_on = _heed(plugin, answer, cycle, result)
            if not go_on:
                return result
    if complete and result.status is None:
        pod_class.settled_pre_filters = _settle(cycle, pod_class, plugins, alike, "constant_pre_filter")
    return result


def pre_score(plugins: Sequence[Plugin], cycle: Cycle, pod_class: PodClass) -> None:
    """Ask PreScore plugins. Raises PluginError if one fails."""
    settled = pod_class.settled_pre_scores
    asked = plugins
    if settled is not None:
        cycle.skipped_score = settled.skipped
        cycle.adopt_score(settled.states)
        asked = settled.asking
    alike: list[Plugin] = []
    for plugin in asked:
        answer = _ask_pre_score(plugin, cycle)
        if answer is None or answer.code is Code.SUCCESS:
            continue
        if answer.code is not Code.SKIP:
            raise PluginError(plugin.name, f'running PreScore plugin "{plugin.name}": {answer.message}')
        if answer is SKIP_CLASS:
            alike.append(plugin)
        cycle.skipped_score |= {plugin.name}
    if settled is None:
        pod_class.settled_pre_scores = _settle(cycle, pod_class, plugins, alike, "constant_pre_score")
    if cycle.skipped_score == pod_class.skipped_score:
        cycle.skipped_score = pod_class.skipped_score
    else:
        pod_class.skipped_score = cycle.skipped_score


def _heed(
    plugin: Plugin, answer: Status | PreFilterResult, cycle: Cycle, result: PreFiltering
) -> tuple[PreFiltering, bool]:
    """Take a PreFilter plugin's answer into account; False if the others need not be asked."""
    if isinstance(answer, PreFilterResult):
        result = _narrowed(result, plugin, answer.node_names)
        return result, result.status is None
    if answer.code is Code.SKIP:
        cycle.skipped |= {plugin.name}
    elif answer.code.is_rejection:
        result = result._replace(status=answer.by(plugin.name))
        return result, answer.code is not Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    elif not answer.is_success:
        raise PluginError(plugin.name, f'running PreFilter plugin "{plugin.name}": {answer.message}')
    return result, True


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
    cycle: Cycle, pod_class: PodClass, plugins: Sequence[Plugin], alike: Sequence[Plugin], constant: str
) -> Settled:
    """What the first pod's answers mean for the next pods of the class.

    Fixed are those of plugins that go by the signature alone, or that skip all that is `alike`.
    """
    unsigned = pod_class.unsigned
    plain = not cycle.pod.template.volumes
    fixed = [
        plugin
        for plugin in plugins
        if plugin.name not in unsigned
        and (getattr(plugin, constant) or plugin in alike or (plain and plugin.signs_volumes))
    ]
    scoring = constant == "constant_pre_score"
    skipped = cycle.skipped_score if scoring else cycle.skipped
    read = cycle.read_score if scoring else cycle.read
    return Settled(
        frozenset(plugin.name for plugin in fixed if plugin.name in skipped),
        {plugin.name: read(plugin) for plugin in fixed},
        tuple(plugin for plugin in plugins if plugin not in fixed),
    )


def _ask_pre_score(plugin: Plugin, cycle: Cycle) -> Status | None:
    watch = cycle.watch
    began = 0.0 if watch is None else watch.timer()
    try:
        answer: Status | None = plugin.pre_score(cycle, cycle.pod)  # type: ignore[attr-defined]
    except PluginError:
        raise
    except Exception as cause:
        message = f'running PreScore plugin "{plugin.name}": {type(cause).__name__}: {cause}'
        raise PluginError(plugin.name, message) from cause
    if watch is not None:
        code = Code.SUCCESS if answer is None else answer.code
        watch.plugin(plugin.name, "PreScore", code.label, watch.timer() - began)
    return answer
