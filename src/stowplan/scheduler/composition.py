"""Parts of a scheduler, made from settings and from other parts; `Scheduler.__init__` puts them together."""

from collections.abc import Callable, Iterable, Sequence

from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.pod import Pod
from stowplan.runtime.clock import Clock
from stowplan.scheduler.context import Context
from stowplan.scheduler.cycle.instrument import Hooks, Instrument
from stowplan.scheduler.decisions import LastDecisions
from stowplan.scheduler.events import not_scheduled
from stowplan.scheduler.framework.events import Action
from stowplan.scheduler.framework.interface import Services
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.instruments.batching import Batch, BatchInstrument
from stowplan.scheduler.instruments.decisions import DecisionsInstrument
from stowplan.scheduler.instruments.metrics import MetricsInstrument
from stowplan.scheduler.metrics import SchedulerMetrics
from stowplan.scheduler.queue.build import rules_of
from stowplan.scheduler.random_sources import RandomSources
from stowplan.scheduler.settings import Settings
from stowplan.scheduler.status_writer import StatusWriter
from stowplan.scheduler.table.table import ClusterTable


def following(
    metrics: SchedulerMetrics, decisions: LastDecisions, clock: Clock, instruments: Sequence[Instrument]
) -> Hooks:
    """The hooks of what follows a scheduler from its beginning: metrics, decisions, instruments."""
    kept = [DecisionsInstrument(decisions, clock)] if decisions.wanted else []
    return Hooks(metrics, MetricsInstrument(metrics), *kept, *instruments)


def frameworks_for(
    settings: Settings,
    table: ClusterTable,
    rngs: RandomSources,
    services: Services,
    hooks: Hooks,
    timer: Callable[[], float],
) -> list[Framework]:
    """The runtime of every profile, on one table."""
    return [
        Framework(
            profile,
            table,
            settings.registry,
            settings.gates,
            rng=rng,
            services=services,
            probe=hooks.probe(profile.scheduler_name, timer),
        )
        for profile, rng in zip(settings.config.profiles, rngs.frameworks, strict=True)
    ]


def events_of_interest(frameworks: Iterable[Framework]) -> dict[str, Action]:
    """Events that could help a pod, as actions by resource."""
    found: dict[str, Action] = {}
    for framework in frameworks:
        for resource, action in rules_of(framework).hints.watched().items():
            found[resource] = found.get(resource, Action(0)) | action
    return found


def status_reporter(context: Context) -> Callable[[Pod, str, str, str | None], None]:
    """Writes why a pod could not be placed: pod, reason, message, and the node it is nominated to."""
    dispatcher = context.dispatcher
    if dispatcher is None:
        return StatusWriter(context).submit

    def report(pod: Pod, reason: str, message: str, nominated_node: str | None) -> None:
        dispatcher.patch_status(pod, (not_scheduled(pod, reason, message),), nominated_node)

    return report


def batches_for(context: Context, gates: FeatureGates) -> BatchInstrument:
    """Instrument that follows the batches of all profiles."""
    batches = {
        name: Batch(
            profile.framework,
            gates.behaviour.batching,
            context.metrics.batches.of(name),
            clock=context.clock,
            timer=context.timer,
            logger=context.logger,
            extenders=bool(context.extenders),
        )
        for name, profile in context.profiles.items()
    }
    return BatchInstrument(batches, context.queue)
