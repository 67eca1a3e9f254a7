"""The pages of the secure port, for requests that passed the filter chain."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from stowplan.config.types import SchedulerConfig
from stowplan.runtime.clock import Clock
from stowplan.runtime.logs import Logger
from stowplan.server.serving.filters import Page, Pages
from stowplan.server.serving.pages.debug import profiling_pages, verbosity_pages
from stowplan.server.serving.pages.health import PING, Check, Checked, health_pages
from stowplan.server.serving.pages.metrics import MetricsSource, metrics_page, resources_page
from stowplan.server.serving.pages.zpages import Component, configz_page, flagz_page, statusz_page

__all__ = ["PING", "Check", "Component", "Sources", "all_pages", "checks"]

HANDLERS_SYNC: Final = "sched-handler-sync"
LEADER_ELECTION: Final = "leaderElection"
SHUTDOWN: Final = "shutdown"
INFORMER_SYNC: Final = "informer-sync"
"""Names of checks."""

_CANDIDATES_NOT_SYNCED: Final = "1 informers not started yet: [*v1beta1.LeaseCandidate]"


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Where the pages get their data. Without `flags` there is no /flagz."""

    component: Component
    clock: Clock
    logger: Logger
    metrics: MetricsSource
    slis: MetricsSource
    pod_resources: Callable[[], Iterator[bytes]]
    leads: Callable[[], bool]
    checked: Checked
    config: Callable[[], SchedulerConfig]
    flags: Callable[[], Mapping[str, str]] | None = None
    healthz: Sequence[Check] = ()
    livez: Sequence[Check] = ()
    readyz: Sequence[Check] = field(default_factory=tuple)
    profiling: bool = True
    statusz: bool = True


def all_pages(sources: Sources) -> Pages:
    """Every page by its path."""
    started = sources.component.started
    pages: dict[str, Page] = {}
    for path, checks in (
        ("/healthz", sources.healthz),
        ("/livez", sources.livez),
        ("/readyz", sources.readyz),
    ):
        pages.update(health_pages(path, checks, checked=sources.checked, logger=sources.logger))
    pages["/configz"] = configz_page(sources.config)
    pages["/metrics"] = metrics_page(sources.metrics, started)
    pages["/metrics/resources"] = resources_page(sources.pod_resources, sources.leads, started)
    pages["/metrics/slis"] = metrics_page(sources.slis, started)
    if sources.flags is not None:
        pages["/flagz"] = flagz_page(sources.component, sources.flags)
    if sources.statusz:
        pages["/statusz"] = statusz_page(sources.component, list(pages), sources.clock)
    if sources.profiling:
        pages.update(profiling_pages())
        pages.update(verbosity_pages(sources.logger))
    return pages


def checks(
    *,
    electing: Callable[[], str | None] | None,
    stopping: Callable[[], bool],
    synced: Callable[[], bool],
    candidate_synced: Callable[[], bool] | None = None,
) -> tuple[tuple[Check, ...], tuple[Check, ...]]:
    """The checks of /healthz and of /readyz. `electing` is the leader election's health, if there is one.

    `candidate_synced`: in a coordinated leader election, whether it is known if our LeaseCandidate exists.
    """
    election = () if electing is None else (Check(LEADER_ELECTION, electing),)
    ready = [
        Check(SHUTDOWN, lambda: "process is shutting down" if stopping() else None),
        Check(HANDLERS_SYNC, lambda: None if synced() else "handlers are not fully synchronized"),
    ]
    if candidate_synced is not None:
        ready.append(Check(INFORMER_SYNC, lambda: None if candidate_synced() else _CANDIDATES_NOT_SYNCED))
    return election, (*election, *ready)
