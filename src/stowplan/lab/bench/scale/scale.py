"""Growth of the cost of a pod, the start and the memory with the number of nodes.

Each size runs in a separate process, so that no size is affected by the one before.
"""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from stowplan.lab.bench.servers.http import BenchError

_WIDTH: Final = 50
"""Characters of the longest bar."""


@dataclass(frozen=True, slots=True)
class ScaleRun:
    """Parameters of a measurement."""

    nodes: tuple[int, ...] = (5_000, 15_000, 50_000, 100_000)
    existing_per_node: int = 10
    pods: int = 5_000
    workload: str = "basic"


@dataclass(frozen=True, slots=True)
class ScaleFigures:
    """Measured figures at one size. Memory is that of scheduler and store together."""

    nodes: int
    existing: int
    pods_per_s: float
    cpu_us_per_pod: float
    start_cpu_s: float
    peak_rss_mib: float


def measure(run: ScaleRun) -> Iterator[ScaleFigures]:
    """The figures of one size after the other. Raises BenchError."""
    for nodes in run.nodes:
        found = _loop(run, nodes)
        yield ScaleFigures(
            nodes,
            nodes * run.existing_per_node,
            found["pods_per_s"],
            found["cpu_us_per_pod"],
            found["start_cpu_s"],
            found["peak_rss_mib"],
        )


def _loop(run: ScaleRun, nodes: int) -> dict[str, Any]:
    command = [
        sys.executable,
        "-c",
        "from stowplan.cli.main import main; main()",
        *("bench", "loop", "--json", "--workload", run.workload, "--nodes", str(nodes)),
        *("--existing-per-node", str(run.existing_per_node), "--pods", str(run.pods)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    last = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()[-1:]
    try:
        return msgspec.json.decode("".join(last), type=dict[str, Any])
    except msgspec.MsgspecError:
        raise BenchError(f"{nodes:,} nodes: {''.join(last)[:300] or 'no figures'}") from None


def chart(found: Sequence[ScaleFigures]) -> Iterator[str]:
    """The CPU time of a pod as bars, each with how many times that of the first it is."""
    most = max((one.cpu_us_per_pod for one in found), default=0.0)
    for one in found if most else ():
        bar = "█" * max(1, round(one.cpu_us_per_pod / most * _WIDTH))
        times = one.cpu_us_per_pod / (found[0].cpu_us_per_pod or most)
        yield f"  {one.nodes:>7,} nodes  {bar} {one.cpu_us_per_pod:,.0f} µs, {times:.2f} times"
