"""The plugins of the documentation outlive nodes, pods and restarts of the scheduler."""

import gc
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from docs.pages import ROOT, write_files
from stowplan.scheduler.framework.registry import load_plugin
from stowplan.testing import Cluster, check_plugin, cluster, node, pod

EXAMPLES = ROOT / "examples"
GPU = "nvidia.com/gpu"
GANG = {"example.com/gang": "g", "example.com/gang-size": "3"}


def example(file: str, name: str) -> Any:
    return load_plugin(f"{EXAMPLES / file}:{name}")


@pytest.fixture
def licences(tmp_path: Path) -> Any:
    write_files(ROOT / "docs" / "plugins.md", tmp_path)
    config = tmp_path / "licences.yaml"
    plugin = load_plugin(f"{tmp_path}/licences.py:Licences")
    return lambda pods=(): cluster([node("n")], pods, config=config, plugins=[plugin])


def holder(name: str) -> Any:
    return pod(name).labels(licence="yes")


def test_a_licence_is_free_again_when_its_pod_is_deleted(licences: Any) -> None:
    c = licences()
    assert [c.schedule(holder(name)).node for name in ("a", "b", "c")] == ["n", "n", None]
    assert c.schedule(pod("needs-none")).node == "n"
    c.remove(holder("a").on("n"))
    assert c.schedule(holder("c")).node == "n"


def test_licences_know_their_holders_after_a_restart(licences: Any) -> None:
    c = licences([holder("a").on("n"), holder("b").on("n")])
    decision = c.schedule(holder("c"))
    assert (decision.node, decision.message) == (None, "no licence is left")


def at_permit(c: Cluster, *names: str) -> list[str | None]:
    return [c.schedule(pod(name).labels(GANG)).node for name in names]


def test_a_gang_whose_members_were_bound_before_a_restart_is_completed() -> None:
    bound = pod("a").labels(GANG).on("n")
    c = cluster([node("n")], [bound], plugins=[example("gang.py", "Gang")])
    assert at_permit(c, "b") == ["n"]
    assert list(c.waiting) == ["default/b"]
    assert at_permit(c, "c") == ["n"]
    assert not c.waiting


def test_a_gang_counts_no_member_that_is_gone_and_none_of_another_namespace() -> None:
    bound = pod("a").labels(GANG).on("n")
    other = pod("x").labels(GANG).namespace("other").on("n")
    c = cluster([node("n")], [bound, other], plugins=[example("gang.py", "Gang")])
    c.remove(bound)
    assert at_permit(c, "b", "c") == ["n", "n"]
    assert list(c.waiting) == ["default/b", "default/c"]


def without_node(c: Cluster, name: str) -> None:
    """Delete a node as a scheduler sees it: its pods are deleted later."""
    c.table.remove_node(name)


@pytest.mark.parametrize(
    ("plugin", "asked"),
    [
        (("gpu_packing.py", "GpuPacking"), pod("p").requests({GPU: "1"})),
        (("cheap_nodes.py", "CheapNodes"), pod("p").annotations({"example.com/max-price": "9"})),
        (("near_job.py", "NearJob"), pod("p").annotations({"example.com/near": "etl"})),
    ],
    ids=["GpuPacking", "CheapNodes", "NearJob"],
)
def test_deleted_nodes_and_pods_leave_nothing_behind(plugin: tuple[str, str], asked: Any) -> None:
    """After deletions it decides as a scheduler that was started on what is left."""
    zone = "topology.kubernetes.io/zone"
    price = "example.com/price"

    def machine(number: int) -> Any:
        labels = {zone: "ab"[number % 2], price: str(number)}
        return node(f"n{number}").capacity({"cpu": "8", GPU: "8"}).labels(labels)

    def worker(number: int) -> Any:
        job = {"batch.kubernetes.io/job-name": "etl"}
        return pod(f"w{number}").labels(job).requests({GPU: str(number)}).on(f"n{number}")

    numbers = range(1, 6)
    c = cluster(map(machine, numbers), map(worker, numbers), plugins=[example(*plugin)])
    c.decide(asked)
    without_node(c, "n2")
    c.remove(worker(3))
    left = [number for number in numbers if number != 2]
    pods = [worker(number) for number in left if number != 3]
    again = cluster(map(machine, left), pods, plugins=[example(*plugin)])
    found, expected = c.decide(asked), again.decide(asked)
    assert found.feasible == expected.feasible == 4
    name = plugin[1]
    scores = [{best.node: best.scores[name] for best in one.best} for one in (found, expected)]
    assert scores[0] == scores[1]


class Figures(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"n0": 90, "n1": 5, "n2": 40}).encode())

    def log_message(self, *args: Any) -> None:
        """Keep quiet."""


@pytest.fixture
def service() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Figures)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def test_http_source_has_figures_from_the_first_pod_on_and_passes_every_check(service: str) -> None:
    """Threads of plugins that are gone have ended."""
    plugin = example("http_source.py", "HttpSource")
    check_plugin(plugin, args={"url": service}, examples=5)
    gc.collect()
    fetching = [thread for thread in threading.enumerate() if thread.name == "http-source"]
    for thread in fetching:
        thread.join(timeout=10)
    assert not any(thread.is_alive() for thread in fetching)
