"""Host ports: what a pod holds and what excludes what."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.api.decode import convert
from stowplan.api.pod import HostPort, Pod, conflicts, host_port, host_ports

ports = st.builds(
    HostPort,
    st.sampled_from(("TCP", "UDP")),
    st.sampled_from(("0.0.0.0", "10.0.0.1", "::")),
    st.sampled_from((80, 443)),
)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (HostPort("TCP", "0.0.0.0", 80), HostPort("TCP", "10.0.0.1", 80), True),
        (HostPort("TCP", "10.0.0.1", 80), HostPort("TCP", "10.0.0.1", 80), True),
        (HostPort("TCP", "10.0.0.1", 80), HostPort("TCP", "10.0.0.2", 80), False),
        (HostPort("TCP", "0.0.0.0", 80), HostPort("UDP", "0.0.0.0", 80), False),
        (HostPort("TCP", "0.0.0.0", 80), HostPort("TCP", "0.0.0.0", 81), False),
        (HostPort("TCP", "::", 80), HostPort("TCP", "10.0.0.1", 80), False),
    ],
)
def test_ports_exclude_each_other_on_the_same_address_or_on_all(
    one: HostPort, other: HostPort, expected: bool
) -> None:
    assert one.conflicts(other) is expected


@given(ports, ports)
def test_exclusion_goes_both_ways(one: HostPort, other: HostPort) -> None:
    assert one.conflicts(other) == other.conflicts(one)
    assert one.conflicts(one)


def test_a_pod_holds_the_ports_of_sidecars_and_containers_with_defaults_filled_in() -> None:
    pod = convert(
        {
            "spec": {
                "containers": [
                    {"ports": [{"containerPort": 1, "hostPort": 80}, {"containerPort": 2}]},
                    {"ports": [{"hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}]},
                ],
                "initContainers": [
                    {"ports": [{"hostPort": 1000}]},
                    {"ports": [{"hostPort": 2000}], "restartPolicy": "Always"},
                ],
            }
        },
        Pod,
    )
    assert host_ports(pod) == (
        HostPort("TCP", "0.0.0.0", 2000),
        HostPort("TCP", "0.0.0.0", 80),
        HostPort("UDP", "10.0.0.1", 53),
    )
    assert conflicts(host_ports(pod), [HostPort("UDP", "10.0.0.1", 53)])
    assert not conflicts(host_ports(pod), [HostPort("UDP", "10.0.0.2", 53)])


def test_port_zero_is_no_port() -> None:
    assert host_port("TCP", "", 0) is None
    assert host_port("", "", 1) == HostPort("TCP", "0.0.0.0", 1)
