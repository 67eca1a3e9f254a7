"""`stowplan bench explain` and `page` on small clusters."""

import json

from click.testing import CliRunner

from stowplan.cli.main import stowplan


def test_explanations_are_measured_on_a_cluster_of_their_own() -> None:
    options = "--nodes 20 --pods 40 --waiting 12 --templates 4 --rounds 1 --json"
    result = CliRunner().invoke(stowplan, ["bench", "explain", *options.split()])
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout.splitlines()[-1])
    assert figures["causes"] == 4
    assert figures["explain_from_lists_s"] > figures["explain_api_s"] > 0
    assert figures["pending_from_lists_cpu_s"] > 0


def test_open_pages_are_measured_while_pods_are_placed() -> None:
    options = "--nodes 10 --existing-per-node 2 --waiting 3 --rate 40 --looks 3 --viewers 2 --json"
    result = CliRunner().invoke(stowplan, ["bench", "page", *options.split()])
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout.splitlines()[-1])
    assert figures["bytes_a_second"] > 1000, "the placed pods were told"
    paths = {"overview", "nodes", "attention", "search", "pending"}
    assert set(figures["documents_ms"]) == paths | {"question"}
