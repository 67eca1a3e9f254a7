"""A scheduler whose files may change: configuration and plugins are read again, as in `stowplan run`."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import perf_counter, process_time

from msgspec.structs import replace

from stowplan.api.gates.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.client import Client
from stowplan.config import ConfigError, LoadedConfig, default_config
from stowplan.config.legacy import load_any_file
from stowplan.runtime.clock import Clock
from stowplan.runtime.logs import Logger
from stowplan.scheduler import Scheduler, Settings
from stowplan.scheduler.extenders.http import extenders_for
from stowplan.scheduler.framework.registry import installed_plugins, load_plugin, plugin_files
from stowplan.scheduler.framework.status import ProfileError
from stowplan.scheduler.recording import Recording, recorded_scheduler
from stowplan.server.configuration import watch_files
from stowplan.server.instance import SchedulerInstance

GRACE = 3.0
"""Seconds that running binding cycles are given when a scheduler is replaced."""


@dataclass(frozen=True, slots=True)
class SchedulerSource:
    """Where the settings of a scheduler come from. With a `name`, its only profile is called so."""

    config: str = ""
    plugins: tuple[str, ...] = ()
    gates: FeatureGates = DEFAULT_GATES
    name: str = ""
    annotate_results: bool = False

    @property
    def files(self) -> tuple[str, ...]:
        return (*((self.config,) if self.config else ()), *plugin_files(self.plugins))

    def load(self) -> LoadedConfig:
        """The configuration. Raises ConfigError."""
        loaded = load_any_file(self.config, self.gates) if self.config else default_config(self.gates)
        if not self.name:
            return loaded
        if len(loaded.config.profiles) != 1:
            raise ConfigError("build", f"{self.config}: expected one profile, for {self.name}")
        profile = replace(loaded.config.profiles[0], scheduler_name=self.name)
        return LoadedConfig(replace(loaded.config, profiles=(profile,)), loaded.gates, loaded.legacy)

    def settings(self, loaded: LoadedConfig | None = None) -> Settings:
        """Settings from the files as they are now. Raises ConfigError and ProfileError."""
        loaded = self.load() if loaded is None else loaded
        plugins = [*installed_plugins(), *map(load_plugin, self.plugins)]
        return Settings.of(loaded, plugins, annotate_results=self.annotate_results)


class ReloadingScheduler:
    """A scheduler that is replaced by one with new settings when its files change. It may be recorded."""

    def __init__(
        self,
        client: Client,
        settings: Settings,
        source: SchedulerSource | None = None,
        *,
        clock: Clock,
        rng: random.Random,
        logger: Logger,
        report: Callable[[str], None],
        recording: Recording | None = None,
    ) -> None:
        self._client = client
        self._recording = recording
        self._source = source or SchedulerSource()
        self._clock = clock
        self._rng = rng
        self._logger = logger
        self._report = report
        self.settings = settings
        self.scheduler = self._made(settings)
        self.is_synced = False
        self.on_reload: Callable[[], None] = lambda: None

    def _made(self, settings: Settings) -> Scheduler:
        return recorded_scheduler(
            self._recording,
            self._client,
            settings,
            clock=self._clock,
            seed=self._rng.getrandbits(64),
            report=lambda why: self._report(f"recording ended: {why}"),
            source="stowplan up",
            timer=perf_counter,
            cpu=process_time,
            extenders=extenders_for(settings.config),
            logger=self._logger,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator["ReloadingScheduler"]:
        """Schedule for as long as the block takes; entered once the caches have synced."""
        if not self._source.files:
            async with self.scheduler.running():
                self.is_synced = True
                yield self
            return
        self._instance = await self._started(self.scheduler)
        self.is_synced = True
        watching = asyncio.create_task(watch_files(lambda: self._source.files, asyncio.Event(), self._reload))
        try:
            yield self
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            await self._instance.end_scheduling(GRACE)
            await self._instance.stop()

    async def _started(self, scheduler: Scheduler) -> SchedulerInstance:
        instance = SchedulerInstance(scheduler, self._logger)
        instance.start()
        await instance.wait_synced()
        instance.begin_scheduling()
        return instance

    async def _reload(self) -> None:
        """Replace the scheduler by one with the new settings, or say why not and keep it."""
        try:
            settings = self._source.settings()
            made = self._made(settings)
        except (ConfigError, ProfileError) as error:
            self._report(f"scheduler {self._names}: not reloaded, the old configuration stays: {error}")
            return
        old, new = self._instance, SchedulerInstance(made, self._logger)
        new.start()
        await new.wait_synced()
        await old.end_scheduling(GRACE)
        await new.wait_caught_up_with(old)
        new.begin_scheduling()
        self._instance, self.scheduler, self.settings = new, made, settings
        await old.stop()
        self.on_reload()
        self._report(f"scheduler {self._names}: reloaded {', '.join(self._source.files)}")

    @property
    def _names(self) -> str:
        return ", ".join(profile.scheduler_name for profile in self.settings.config.profiles)
