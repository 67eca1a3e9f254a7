"""`stowplan bench durable` at a size that takes no time; how fast anything is, is not tested."""

import json
from pathlib import Path

from click.testing import CliRunner

from stowplan.cli.lab.bench import bench


def test_both_ways_are_measured_and_nothing_is_left_behind(tmp_path: Path) -> None:
    small = ["--pods", "20", "--connections", "2", "--folder", str(tmp_path), "--json"]
    result = CliRunner().invoke(bench, ["durable", *small])
    assert result.exit_code == 0, result.output
    figures = json.loads(result.output.splitlines()[-1])
    assert figures.items() >= {"pods": 20, "connections": 2}.items()
    for name in ("store_memory_per_s", "store_kept_per_s", "http_memory_per_s", "http_kept_per_s", "load_s"):
        assert figures[name] > 0, name
    assert not list(tmp_path.iterdir())
