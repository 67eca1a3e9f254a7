"""PostFilter: making room for a pod that fits nowhere. Extenders have a say about victims of preemption."""

from collections.abc import Iterable

from stowplan.api.pod import Pod
from stowplan.runtime.logs import Ref
from stowplan.scheduler.cycle.context import CycleContext
from stowplan.scheduler.cycle.failure_handler import UNHANDLED
from stowplan.scheduler.cycle.profile import Profile
from stowplan.scheduler.cycle.requests import Write
from stowplan.scheduler.extenders.requests import AskPreempt, ExtenderError, PreemptRound
from stowplan.scheduler.framework.cycle_state import Cycle
from stowplan.scheduler.framework.extension_points import PostFilterRound, ask_post_filter, post_filter_steps
from stowplan.scheduler.framework.interface import PREEMPTION_PREFIX, Plugin, PostFilterResult
from stowplan.scheduler.framework.pod_groups.placement import Waited
from stowplan.scheduler.framework.protocols import PreemptionPlugin
from stowplan.scheduler.framework.status import Code, PluginError, error
from stowplan.scheduler.table.podinfo import PodInfo


def post_filter(
    context: CycleContext, profile: Profile, cycle: Cycle, pod: PodInfo
) -> Waited[PostFilterResult]:
    """Ask the PostFilter plugins what they can do for a pod, and write what they want written."""
    began, hooks = context.timer(), context.hooks
    if hooks.post_filter_begins is not None:
        hooks.post_filter_begins(profile)
    try:
        with context.freeze.hold():
            if context.extenders:
                result = yield from post_filter_with_extenders(profile.post_filters, cycle, pod)
            else:
                result = yield from post_filter_steps(profile.post_filters, cycle, pod)
            against = (yield Write(result.writes)) if result.writes else None
            if against is not None:
                result = PostFilterResult(against, write_failed=True)
    except PluginError as failure:
        result = PostFilterResult(error(str(failure)))
    if hooks.post_filter_ended is not None:
        hooks.post_filter_ended(profile, cycle, pod, result, context.timer() - began)
    message = "Status after running PostFilter plugins for pod"
    status = result.status.message
    if result.status.code is Code.ERROR:
        context.logger.error(message, pod=Ref(pod.key), status=status, logger=UNHANDLED)
    else:
        context.logger.info(5, message, pod=Ref(pod.key), status=status)
    return result


def post_filter_with_extenders(
    plugins: Iterable[Plugin], cycle: Cycle, pod: PodInfo
) -> Waited[PostFilterResult]:
    """Ask PostFilter plugins in order; extenders may take candidates out. Raises PluginError."""
    asked = PostFilterRound()
    for plugin in plugins:
        answer = yield from ask_post_filter(plugin, cycle, pod)
        if isinstance(plugin, PreemptionPlugin) and answer.candidates:
            answer = yield from _after_extenders(plugin, cycle, pod, answer)
        result = asked.take(plugin, answer)
        if result is not None:
            return result
    return asked.end()


def _after_extenders(
    plugin: PreemptionPlugin, cycle: Cycle, pod: PodInfo, result: PostFilterResult
) -> Waited[PostFilterResult]:
    """Let extenders take candidates out, and choose among the rest."""
    table = cycle.table

    def victim_on(node: str, uid: str) -> Pod | None:
        row = table.row_of(node)
        if row is None:
            raise LookupError(node)
        info = table.pods_on[row].get(uid)
        return None if info is None else info.pod

    try:
        left: PreemptRound | None = yield AskPreempt(pod.pod, dict(result.candidates), victim_on)
    except ExtenderError as failure:
        return PostFilterResult(error(f"{PREEMPTION_PREFIX}{failure}"))
    return result if left is None else plugin.among_candidates(left.candidates)
