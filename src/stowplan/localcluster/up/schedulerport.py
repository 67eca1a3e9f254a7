"""The secure port of a cluster's scheduler: health, metrics and configuration, as in `stowplan run`."""

import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter

from stowplan.client.http import HttpClient, load_kubeconfig
from stowplan.localcluster.up.schedulers import ReloadingScheduler
from stowplan.runtime.clock import Clock
from stowplan.runtime.logs import Logger
from stowplan.scheduler.metrics import HealthMetrics, PodResources, ProcessMetrics
from stowplan.server.serving import SecureServer
from stowplan.server.serving.pages import PING, Component, Sources, all_pages, checks
from stowplan.server.serving.settings import ServingSettings


@asynccontextmanager
async def scheduler_port(
    scheduler: ReloadingScheduler, kubeconfig: Path, serving: ServingSettings, clock: Clock, logger: Logger
) -> AsyncIterator[SecureServer]:
    """Serve for as long as the block takes. Callers are reviewed by the API server of `kubeconfig`.

    Raises ServingError.
    """
    metrics = ProcessMetrics(scheduler.settings.gates, timer=perf_counter)
    started = clock.now()
    health = HealthMetrics(started)
    healthz, readyz = checks(electing=None, stopping=lambda: False, synced=lambda: scheduler.is_synced)

    def show() -> None:
        metrics.show(scheduler.scheduler.context.metrics)

    def pod_resources() -> Iterator[bytes]:
        return PodResources(lambda: scheduler.scheduler.informers.pods.objects.values()).pieces()

    pages = all_pages(
        Sources(
            component=Component.of(started, scheduler.settings.release),
            clock=clock,
            logger=logger,
            metrics=metrics,
            slis=health,
            pod_resources=pod_resources,
            leads=lambda: True,
            checked=health.checked,
            config=lambda: scheduler.settings.config.config,
            healthz=healthz or (PING,),
            livez=(PING,),
            readyz=readyz,
        )
    )
    client = HttpClient(
        load_kubeconfig(kubeconfig), clock=clock, rng=random.Random(), qps=-1, user_agent="scheduler-port"
    )
    async with client:
        server = SecureServer(
            pages,
            serving,
            authentication_client=client,
            authorization_client=client,
            clock=clock,
            logger=logger,
            observer=metrics.access,
        )
        show()
        scheduler.on_reload = show
        async with server:
            yield server
