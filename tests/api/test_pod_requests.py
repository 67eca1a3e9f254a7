"""Resources that a pod takes on a node."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.api.decode import convert
from stowplan.api.pod import Pod
from stowplan.api.quantity import QuantityError, parse
from stowplan.api.rules.resources import (
    accounted_requests,
    incoming_requests,
    is_extended,
    is_native,
    is_scalar,
    pod_limits,
    pod_requests,
    requests_for_scoring,
)

MI = 1024 * 1024


def container(name: str = "c", *, sidecar: Any = False, **requests: str) -> dict[str, Any]:
    restart = {"restartPolicy": "Always"} if sidecar else {}
    return {"name": name, "resources": {"requests": requests}, **restart}


def pod(*containers: dict[str, Any], init: Any = (), status: Any = None, **spec: Any) -> Pod:
    data = {"spec": {"containers": containers, "initContainers": init, **spec}, "status": status or {}}
    return convert(data, Pod)


@pytest.mark.parametrize(
    ("init", "milli_cpu"),
    [
        ([], 300),
        ([container(cpu="250m")], 300),
        ([container(cpu="1"), container(cpu="2")], 2000),
        ([container(sidecar=True, cpu="100m")], 400),
        ([container(sidecar=True, cpu="100m"), container(cpu="350m")], 450),
        ([container(cpu="350m"), container(sidecar=True, cpu="100m")], 400),
        ([container(sidecar=True, cpu="100m"), container(sidecar=True, cpu="200m")], 600),
    ],
    ids=[
        "containers add up",
        "a smaller init container changes nothing",
        "the largest init container counts",
        "a sidecar runs next to the containers",
        "a later init container runs next to the sidecar",
        "an earlier init container does not",
        "sidecars add up",
    ],
)
def test_cpu_of_containers_init_containers_and_sidecars(init: list[dict[str, Any]], milli_cpu: int) -> None:
    template = pod(container(cpu="100m"), container(cpu="200m"), init=init)
    assert accounted_requests(template).milli_cpu == milli_cpu


def test_fractions_are_rounded_up_once_after_adding() -> None:
    assert accounted_requests(pod(container(cpu="1500u"), container(cpu="1500u"))).milli_cpu == 3
    assert accounted_requests(pod(container(cpu="1500u"))).milli_cpu == 2


def test_a_request_beyond_int64_is_the_largest_number_and_never_one_that_fits() -> None:
    assert accounted_requests(pod(container(memory="1e19"))).memory == 2**63 - 1
    beside_a_fraction = pod(container(memory="0.1Ki"), init=[container(memory="1e19")])
    assert accounted_requests(beside_a_fraction).memory == 2**63 - 1
    assert accounted_requests(pod(container(memory="7Ei"), container(memory="7Ei"))).memory == 2**63 - 1
    assert accounted_requests(pod(container(cpu="1e16"))).milli_cpu == 2**63 - 1


def test_requests_of_the_whole_pod_replace_the_sum_and_overhead_comes_on_top() -> None:
    template = pod(
        container(cpu="1", memory="1Mi", **{"example.com/gpu": "1"}),
        resources={"requests": {"cpu": "500m", "example.com/gpu": "5"}},
        overhead={"cpu": "10m", "memory": "1Mi"},
    )
    counted = incoming_requests(template)
    assert (counted.milli_cpu, counted.memory) == (510, 2 * MI)
    assert counted.scalars == {"example.com/gpu": 1}


@pytest.mark.parametrize(
    ("requests", "milli_cpu", "memory"),
    [({}, 100, 200 * MI), ({"cpu": "0"}, 0, 200 * MI), ({"cpu": "5m", "memory": "1Mi"}, 5, MI)],
)
def test_a_container_that_leaves_cpu_or_memory_open_counts_a_little_in_scores(
    requests: dict[str, str], milli_cpu: int, memory: int
) -> None:
    counted = accounted_requests(pod(container(**requests)))
    assert (counted.non_zero_milli_cpu, counted.non_zero_memory) == (milli_cpu, memory)


def test_with_requests_of_the_whole_pod_only_what_nobody_mentions_is_filled_in() -> None:
    counted = accounted_requests(pod(container(), container(), resources={"requests": {"cpu": "1"}}))
    assert (counted.non_zero_milli_cpu, counted.non_zero_memory) == (1000, 400 * MI)


RESIZING = {
    "containerStatuses": [
        {"name": "c", "resources": {"requests": {"cpu": "300m"}}, "allocatedResources": {"cpu": "200m"}}
    ]
}
INFEASIBLE = RESIZING | {"conditions": [{"type": "PodResizePending", "reason": "Infeasible"}]}
DEFERRED = RESIZING | {"conditions": [{"type": "PodResizePending", "reason": "Deferred"}]}


@pytest.mark.parametrize(
    ("status", "wanted", "milli_cpu"),
    [
        (RESIZING, "100m", 300),
        (RESIZING, "500m", 500),
        (DEFERRED, "500m", 500),
        (INFEASIBLE, "500m", 300),
        ({"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "9"}}]}, "100m", 100),
    ],
    ids=["shrinking", "growing", "deferred", "infeasible", "nothing given yet"],
)
def test_a_pod_being_resized_counts_at_its_larger_size(status: Any, wanted: str, milli_cpu: int) -> None:
    template = pod(container(cpu=wanted), status=status)
    assert accounted_requests(template).milli_cpu == milli_cpu
    assert incoming_requests(template).milli_cpu == parse(wanted).milli_value()


def test_fit_scores_see_containers_only_and_balance_sees_the_whole_pod() -> None:
    template = pod(container(), resources={"requests": {"cpu": "2"}}, overhead={"memory": "1Mi"})
    names = ("cpu", "memory", "example.com/gpu")
    assert requests_for_scoring(template, names, non_zero=True, pod_level=False) == (100, 201 * MI, 0)
    assert requests_for_scoring(template, names, non_zero=False, pod_level=True) == (2000, MI, 0)


def test_limits_add_up_and_overhead_raises_only_those_that_are_set() -> None:
    limited = {"name": "c", "resources": {"limits": {"cpu": "1", "memory": "0"}}}
    template = pod(limited, limited, overhead={"cpu": "500m", "memory": "1Mi", "ephemeral-storage": "1"})
    assert {name: str(limit) for name, limit in pod_limits(template).items()} == {
        "cpu": "2500m",
        "memory": "0",
    }


def test_a_bad_quantity_is_reported_with_its_resource() -> None:
    with pytest.raises(QuantityError, match=r"^memory: '1 Gi': quantities must match"):
        accounted_requests(pod(container(cpu="1", memory="1 Gi")))


@pytest.mark.parametrize(
    ("name", "scalar", "extended", "native"),
    [
        ("cpu", False, False, True),
        ("pods", False, False, True),
        ("example.com/gpu", True, True, False),
        ("requests.example.com/gpu", False, False, False),
        ("example.com/a/b", False, False, False),
        ("hugepages-2Mi", True, False, True),
        ("attachable-volumes-ebs", True, False, True),
        ("kubernetes.io/batch", True, False, True),
        ("sub.kubernetes.io/x", True, False, True),
    ],
)
def test_resource_names_say_how_a_resource_is_counted(
    name: str, scalar: bool, extended: bool, native: bool
) -> None:
    assert (is_scalar(name), is_extended(name), is_native(name)) == (scalar, extended, native)


amounts = st.fixed_dictionaries(
    {}, optional={"cpu": st.sampled_from(("0", "1m", "1500u", "2")), "memory": st.sampled_from(("1", "1Gi"))}
)
containers = st.lists(st.tuples(amounts, st.booleans()), max_size=4)


@given(containers, containers)
def test_a_pod_never_takes_less_than_any_of_its_containers(
    regular: list[tuple[dict[str, str], bool]], init: list[tuple[dict[str, str], bool]]
) -> None:
    template = pod(
        *(container(f"c{i}", **requests) for i, (requests, _) in enumerate(regular)),
        init=[container(f"i{i}", sidecar=sidecar, **requests) for i, (requests, sidecar) in enumerate(init)],
    )
    total = pod_requests(template)
    for requests, _ in (*regular, *init):
        for name, raw in requests.items():
            assert total[name] >= parse(raw)
    counted = accounted_requests(template)
    assert counted.non_zero_milli_cpu >= counted.milli_cpu
    assert counted.non_zero_memory >= counted.memory
