"""The figures of a shadow as Prometheus metrics, on a loopback port while it runs."""

from collections.abc import Callable, Iterator

from aiohttp import web
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from stowplan.scheduler.metrics.exposition import exposition
from stowplan.simulate.shadow.judge import AGREE, INFEASIBLE, LOWER, UNJUDGED
from stowplan.simulate.shadow.report import Tally

_VERDICTS = {AGREE: "agree", LOWER: "lower_score", INFEASIBLE: "infeasible", UNJUDGED: "unjudged"}
_FORMAT = "text/plain; version=0.0.4; charset=utf-8"


class ShadowMetrics(Collector):
    """`waiting` is how many bindings are seen and may still turn out to agree."""

    def __init__(self, tally: Tally, waiting: Callable[[], int]) -> None:
        self._tally = tally
        self._waiting = waiting

    def collect(self) -> Iterator[Metric]:
        tally = self._tally
        bindings = CounterMetricFamily(
            "stowplan_shadow_bindings_total", "Bindings that were judged, by verdict.", labels=["verdict"]
        )
        for verdict, label in _VERDICTS.items():
            bindings.add_metric([label], tally.verdicts[verdict])
        yield bindings
        plugins = CounterMetricFamily(
            "stowplan_shadow_disagreements_total",
            "Disagreements by the plugin that makes the difference.",
            labels=["plugin"],
        )
        for plugin, count in tally.plugins.items():
            plugins.add_metric([plugin], count)
        yield plugins
        yield CounterMetricFamily(
            "stowplan_shadow_raced_total", "Agreements on an older or newer state than we saw.", tally.raced
        )
        yield CounterMetricFamily(
            "stowplan_shadow_sampled_total",
            "Agreements where the node is not best of all but may be best of those looked at.",
            tally.sampled,
        )
        yield GaugeMetricFamily(
            "stowplan_shadow_open", "Bindings that may still turn out to agree.", self._waiting()
        )
        yield GaugeMetricFamily(
            "stowplan_shadow_lag_seconds", "Seconds from the last binding to when we saw it.", tally.lag
        )


class MetricsServer:
    """`/metrics` on loopback. Raises OSError if the port is taken."""

    def __init__(self, metrics: ShadowMetrics, port: int) -> None:
        self._metrics = metrics
        self._wanted = port
        self._runner: web.ServerRunner | None = None
        self.url = ""

    async def __aenter__(self) -> "MetricsServer":
        self._runner = web.ServerRunner(web.Server(self._handle))
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._wanted).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/metrics"
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path != "/metrics":
            return web.Response(status=404, text="404 page not found\n")
        if request.method not in ("GET", "HEAD"):
            return web.Response(status=405, text="only GET is supported\n")
        return web.Response(body=exposition([self._metrics]), headers={"Content-Type": _FORMAT})
