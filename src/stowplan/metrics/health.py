"""How checks of the process's health came out, for /metrics/slis."""

from prometheus_client import CollectorRegistry

from stowplan.framework.gates import DEFAULT_GATES
from stowplan.metrics.accumulators import UNLABELLED
from stowplan.metrics.delimited import delimited
from stowplan.metrics.exposition import exposition
from stowplan.metrics.families import Families
from stowplan.metrics.processcatalogue import HEALTH


class HealthMetrics:
    """Checks by name and by the page they belong to. `started`: when the process was, since 1970."""

    def __init__(self, started: float) -> None:
        families = Families(DEFAULT_GATES, HEALTH)
        self._registry = CollectorRegistry()
        self._registry.register(families)
        self._families = families
        self._last = families.gauge("kubernetes_healthcheck")
        self._all = families.counter("kubernetes_healthchecks_total")
        families.read_gauge("process_start_time_seconds").read_series_from(lambda: {UNLABELLED: started})

    def checked(self, name: str, page: str, passed: bool) -> None:
        """A check of a page (`healthz`, `livez`, `readyz`) was made."""
        self._last[name, page] = int(passed)
        self._all[name, page, "success" if passed else "error"] += 1

    def text(self) -> bytes:
        return exposition([self._registry])

    def delimited(self) -> bytes:
        return delimited([self._registry])

    def reset(self) -> None:
        """Start anew: a check shows up again when it is next made."""
        self._last.clear()
        self._families.reset()
