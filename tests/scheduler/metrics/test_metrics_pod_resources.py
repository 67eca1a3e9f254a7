"""Requests and limits of pods, by the rules for containers of all kinds."""

import msgspec
import pytest

from stowplan.api.pod import Pod, ResourceRequirements
from stowplan.scheduler.metrics import PodResources
from stowplan.testing import pod
from stowplan.testing.builders import PodBuilder


def lines(*pods: Pod) -> list[str]:
    text = b"".join(PodResources(lambda: pods).pieces()).decode()
    return [line for line in text.splitlines() if not line.startswith("#")]


def figures(builder: PodBuilder) -> dict[tuple[str, str, str], str]:
    """Amounts by family, resource and unit."""
    found = {}
    for line in lines(builder.obj()):
        name, _, rest = line.removeprefix("kube_pod_resource_").partition("{")
        labels = dict(part.split("=") for part in rest.partition("}")[0].split(","))
        found[name, labels["resource"].strip('"'), labels["unit"].strip('"')] = line.rpartition(" ")[2]
    return found


@pytest.mark.parametrize(
    ("builder", "expected"),
    [
        (
            pod("p").requests(cpu="250m").init_container(cpu="1"),
            {("request", "cpu", "cores"): "1"},
        ),
        (
            pod("p").requests({"attachable-volumes-csi": "2"}),
            {("request", "attachable-volumes-csi", "integer"): "2"},
        ),
        (
            pod("p").requests(cpu="1").spec(overhead={"cpu": "500m", "memory": "1Mi"}),
            {("request", "cpu", "cores"): "1.5", ("request", "memory", "bytes"): "1.048576e+06"},
        ),
        (
            pod("p").limits(cpu="1").spec(overhead={"cpu": "500m", "memory": "1Mi"}),
            {
                ("limit", "cpu", "cores"): "1.5",
                ("request", "cpu", "cores"): "0.5",
                ("request", "memory", "bytes"): "1.048576e+06",
            },
        ),
        (
            pod("p").requests(cpu="1").spec(resources=ResourceRequirements(requests={"cpu": "3"})),
            {("request", "cpu", "cores"): "3"},
        ),
        (pod("p").requests(cpu="0", memory="0"), {}),
        (pod("p"), {}),
    ],
)
def test_amounts_follow_the_rules_for_pods(
    builder: PodBuilder, expected: dict[tuple[str, str, str], str]
) -> None:
    assert figures(builder) == expected


def test_a_pod_that_has_finished_asks_for_nothing() -> None:
    running = pod("p").requests(cpu="1").on("n").obj()
    finished = msgspec.structs.replace(
        running, status=msgspec.structs.replace(running.status, phase="Failed")
    )
    assert lines(finished) == []
    assert len(lines(running)) == 1


def test_a_pod_without_a_priority_shows_none() -> None:
    (line,) = lines(pod("p").requests(cpu="1").obj())
    assert 'priority="",' in line


def test_names_of_schedulers_are_escaped() -> None:
    (line,) = lines(pod("p").requests(cpu="1").scheduler('a"b\\c').obj())
    assert r'scheduler="a\"b\\c"' in line


def test_names_that_no_api_server_should_accept_are_one_line_each() -> None:
    name = 'a"} 1\nevil{x="'
    (line,) = lines(pod(name).namespace(name).requests(cpu="1").on(name).obj())
    quoted = r"a\"} 1\nevil{x=\""
    assert f'namespace="{quoted}",node="{quoted}",pod="{quoted}"' in line


def test_pods_alike_are_told_one_by_one() -> None:
    found = lines(*(pod(f"p{number}").requests(cpu="1").obj() for number in range(500)))
    assert len(set(found)) == 500


def test_a_family_without_series_is_not_announced() -> None:
    text = b"".join(PodResources(lambda: [pod("p").requests(cpu="1").obj()]).pieces())
    assert b"kube_pod_resource_limit" not in text
    assert b"".join(PodResources(list).pieces()) == b""
