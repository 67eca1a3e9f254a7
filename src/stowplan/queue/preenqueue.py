"""PreEnqueue: plugins that keep a pod from being tried at all."""

from collections.abc import Sequence

from stowplan.framework.plugin import Plugin
from stowplan.framework.status import SUCCESS, Status, error
from stowplan.queue.instrument import Hooks
from stowplan.queue.queued import QueuedPod


def run_pre_enqueue(plugins: Sequence[Plugin], queued: QueuedPod, hooks: Hooks) -> None:
    """Ask plugins whether a pod may be tried, first the one that held it back last time.

    The first that says no is noted with the pod as its gate and among the plugins that rejected it. A plugin
    that fails keeps the pod back, too.
    """
    gating, pod = queued.gating_plugin, queued.pod
    queued.gating_plugin = ""
    queued.gate = None
    if not plugins:
        return
    each = hooks.before_pre_enqueue is not None and hooks.before_pre_enqueue(queued)
    for plugin in sorted(plugins, key=lambda plugin: plugin.name != gating) if gating else plugins:
        if each and hooks.before_plugin is not None:
            hooks.before_plugin(plugin.name)
        try:
            answer: object = plugin.pre_enqueue(pod)  # type: ignore[attr-defined]
        except Exception as cause:  # noqa: BLE001 - one plugin's mistake must not stop the queue
            answer = error(f"{type(cause).__name__}: {cause}")
        status = SUCCESS if answer is None else _read(answer)
        if each and hooks.after_plugin is not None:
            hooks.after_plugin(plugin.name, status)
        if status is not SUCCESS and not status.is_success:
            _gate(plugin.name, status, queued, hooks)
            break
    if hooks.after_pre_enqueue is not None:
        hooks.after_pre_enqueue(queued)


def _gate(plugin: str, status: Status, queued: QueuedPod, hooks: Hooks) -> None:
    if hooks.rejected is not None and plugin not in queued.rejectors:
        hooks.rejected(plugin, queued.profile, 1)
    queued.unschedulable_plugins |= {plugin}
    queued.gating_plugin = plugin
    queued.gate = status.by(plugin)


def _read(answer: object) -> Status:
    if isinstance(answer, Status):
        return answer
    return error(f"expected a Status or None, got {type(answer).__name__}")
