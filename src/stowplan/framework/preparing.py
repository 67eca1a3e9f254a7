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
    asked = plugins
    if settled is not None:
        cycle.adopt(settled.states)
        asked = settled.asking
    result = NOTHING_SAID
    skipping: tuple[str, ...] = ()
    alike: list[Plugin] = []
    complete = True
    for plugin in asked:
        answer = ask_pre_filter(plugin, cycle)
        if answer is None:
            continue
        if isinstance(answer, PreFilterResult):
            complete = complete and not plugin.constant_pre_filter
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
            raise PluginError(plugin.name, f'running PreFilter plugin "{plugin.name}": {answer.message}')
    if settled is not None:
        cycle.skipped = settled.skipped_with(skipping)
        return result
    cycle.skipped = frozenset(skipping)
    if complete and result.status is None:
        pod_class.settled_pre_filters = _settle(cycle, pod_class, plugins, alike, "constant_pre_filter")
    return result


def pre_score(plugins: Sequence[Plugin], cycle: Cycle, pod_class: PodClass) -> None:
    """Ask PreScore plugins. Raises PluginError if one fails."""
    settled = pod_class.settled_pre_scores
    asked = plugins
    if settled is not None:
        cycle.adopt_score(settled.states)
        asked = settled.asking
    skipping: tuple[str, ...] = ()
    alike: list[Plugin] = []
    for plugin in asked:
        answer = _ask_pre_score(plugin, cycle)
        if answer is None or answer.code is Code.SUCCESS:
            continue
        if answer.code is not Code.SKIP:
            raise PluginError(plugin.name, f'running PreScore plugin "{plugin.name}": {answer.message}')
        skipping += (plugin.name,)
        if answer is SKIP_CLASS:
            alike.append(plugin)
    if settled is not None:
        cycle.skipped_score = settled.skipped_with(skipping)
        return
    cycle.skipped_score = frozenset(skipping)
    pod_class.settled_pre_scores = _settle(cycle, pod_class, plugins, alike, "constant_pre_score")


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
        {},
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
