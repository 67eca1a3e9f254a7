"""Settings of a scheduler."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from stowplan.api.gates.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.api.releases import Release
from stowplan.config import LoadedConfig, default_config
from stowplan.config.build import BuiltConfig, build, without_unknown_plugins
from stowplan.scheduler.framework.interface import Plugin
from stowplan.scheduler.framework.registry import Registry
from stowplan.scheduler.plugins.pod_groups.coscheduling import Coscheduling
from stowplan.scheduler.plugins.registry import in_tree_registry
from stowplan.scheduler.queue.scheduling_queue import LONGEST_WAIT


@dataclass(frozen=True, slots=True)
class Settings:
    """A configuration ready for use, and what is not in a configuration file.

    `longest_wait` is how long, in seconds, a pod waits for an event before it is tried again without one.
    `hostname` appears in events. `kept_decisions` is how many pods' last decisions are kept to be explained.
    With `legacy_metrics` figures are shown under the names of earlier releases, too. With `annotate_results`
    bound pods get the results of their scheduling cycle as annotations. With `wake_failed_groups` a group of
    pods that found no place is tried again soon after an event that may help it, as a pod is; without it the
    group sits out its backoff, as in kube-scheduler. Where pods go is the same. Events are written together
    every `gather_events` seconds, 0: each at once.
    """

    config: BuiltConfig
    gates: FeatureGates = DEFAULT_GATES
    registry: Registry = field(default_factory=in_tree_registry)
    longest_wait: float = LONGEST_WAIT
    hostname: str = "localhost"
    kept_decisions: int = 10_000
    legacy_metrics: bool = False
    annotate_results: bool = False
    wake_failed_groups: bool = True
    gather_events: float = 0.0
    without_plugins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Plugins that a configuration names and that are not installed, by profile."""

    @property
    def release(self) -> Release:
        """The release of Kubernetes that the scheduler is."""
        return self.gates.release

    @classmethod
    def of(
        cls,
        loaded: LoadedConfig | None = None,
        plugins: Sequence[type[Plugin]] = (),
        *,
        longest_wait: float = LONGEST_WAIT,
        hostname: str = "localhost",
        kept_decisions: int = 10_000,
        legacy_metrics: bool = False,
        annotate_results: bool = False,
        wake_failed_groups: bool = True,
        lenient: bool = False,
    ) -> "Settings":
        """Settings from a loaded configuration (none: the defaults) and plugins from outside the tree.

        With `lenient` plugins that are not installed are left out. Raises ConfigError, or ProfileError for a
        plugin whose name is taken.
        """
        loaded = default_config() if loaded is None else loaded
        registry = in_tree_registry().with_plugins(plugins)
        missing: Mapping[str, tuple[str, ...]] = {}
        if lenient:
            loaded, missing = without_unknown_plugins(loaded, registry.offered)
        built = build(loaded, registry)
        used = {use.name for profile in built.profiles for uses in profile.plugins.values() for use in uses}
        return cls(
            built,
            loaded.gates.with_coscheduling() if Coscheduling.name in used else loaded.gates,
            registry,
            longest_wait,
            hostname,
            kept_decisions,
            legacy_metrics,
            annotate_results,
            wake_failed_groups,
            without_plugins=missing,
        )
