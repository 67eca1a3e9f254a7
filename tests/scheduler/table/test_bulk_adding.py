"""Many pods added to the table at once: the result is the same as one after the other."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.api.labels import EVERYTHING
from stowplan.api.pod import HostPort, Pod
from stowplan.scheduler.cache import Cache
from stowplan.scheduler.table.changes import ChangeLog
from stowplan.scheduler.table.matchers import PodMatcher
from stowplan.scheduler.table.table import ClusterTable
from stowplan.testing import node, pod

HUGE = str(2**62)
KINDS = ("plain", "port", "device", "unoffered", "repelled", "huge", "dying", "unreadable")
NODES = ("a", "b", "c", "unknown")


def running(kind: str, number: int, on: str) -> Pod:
    """A pod of one of a few templates."""
    made = pod(f"{kind}-{number}").labels(app=kind).on(on)
    match kind:
        case "port":
            made = made.port(80, 8080)
        case "device":
            made = made.requests({"cpu": "1", "example.com/gpu": "2"})
        case "unoffered":
            made = made.requests({"example.com/other": "3"})
        case "repelled":
            made = made.anti_affinity("kubernetes.io/hostname")
        case "huge":
            made = made.requests(memory=HUGE)
        case "dying":
            made = made.requests(cpu="1").terminating()
        case "unreadable":
            made = made.requests(cpu="one")
        case _:
            made = made.requests(cpu="100m", memory="1Gi")
    return made.obj()


class Seen:
    """A cache, and all visible parts of its table."""

    def __init__(self) -> None:
        table = ClusterTable()
        self.cache = Cache(table, lambda problem: None)
        for name in NODES[:-1]:
            table.put_node(node(name).capacity({"cpu": "8", "example.com/gpu": "4"}).obj())
        self.matcher: PodMatcher = table.matchers.acquire(((None, EVERYTHING),), dying_too=False)

    def state(self) -> dict[str, Any]:
        table = self.cache.table
        rows = range(table.rows_in_use)
        label_sets = {id(info.template.label_set): info.template.label_set for info in table.pods.values()}
        return {
            "sizes": table.sizes(),
            "pods": [(uid, info.row, info.pod, info.dying) for uid, info in table.pods.items()],
            "pods of rows": [list(table.pods_on[row]) for row in rows],
            "requested": table.requested.tolist(),
            "exactly": [[table.exactly_requested(line, row) for row in rows] for line in range(3)],
            "non-zero": table.non_zero.tolist(),
            "number": table.pod_count.tolist(),
            "without a line": table.requested_of("example.com/other").tolist(),
            "ports": table.host_ports.conflicting_rows([HostPort("TCP", "0.0.0.0", 8080)]),
            "label sets": [(one.labels, one.live, one.dying) for one in label_sets.values()],
            "selected": self.matcher.rows.to_array(table.capacity).tolist(),
            "touched": (table.usage_log.position, table.usage_log.since(0)),
            "skipped": self.cache.skipped,
        }


@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 5), st.sampled_from(NODES)), max_size=12),
        max_size=3,
    )
)
def test_many_pods_at_once_leave_the_same_table_as_one_by_one(
    batches: list[list[tuple[str, int, str]]],
) -> None:
    together, in_turn = Seen(), Seen()
    homes: dict[tuple[str, int], str] = {}
    for batch in batches:
        pods = [running(kind, number, homes.setdefault((kind, number), on)) for kind, number, on in batch]
        together.cache.put_pods(pods)
        for one in pods:
            in_turn.cache.put_pod(one)
    found, expected = together.state(), in_turn.state()
    assert [found.pop("touched")[0]] == [expected.pop("touched")[0]]
    assert found == expected


def test_sums_past_64_bits_are_exact_when_pods_come_together_and_leave_again() -> None:
    seen = Seen()
    pods = [running("huge", number, "a") for number in range(5)]
    seen.cache.put_pods(pods)
    row = seen.cache.table.row_of("a")
    assert row is not None
    assert seen.cache.table.exactly_requested(1, row) == 5 * 2**62
    assert int(seen.cache.table.requested[1, row]) == 2**63 - 1
    for one in pods[1:]:
        seen.cache.remove_pod(one)
    assert int(seen.cache.table.requested[1, row]) == 2**62


def test_pods_of_one_template_hold_what_they_have_in_common_once() -> None:
    seen = Seen()
    first, second = running("plain", 1, "a"), running("plain", 2, "b")
    expected = running("plain", 2, "b")
    assert second.spec.containers is not first.spec.containers
    seen.cache.put_pods([first, second])
    assert second.spec.containers is first.spec.containers
    assert second.metadata.labels is first.metadata.labels
    assert second == expected


@pytest.mark.parametrize("limit", [4, 7])
@given(st.lists(st.lists(st.integers(0, 9), max_size=12), max_size=6))
def test_a_log_that_is_extended_answers_as_one_that_is_appended_to(
    limit: int, pieces: list[list[int]]
) -> None:
    extended, appended = ChangeLog(limit), ChangeLog(limit)
    for piece in pieces:
        extended.extend(piece)
        for row in piece:
            appended.append(row)
        assert extended.position == appended.position
        for position in range(max(0, extended.position - limit), extended.position + 1):
            one, other = extended.since(position), appended.since(position)
            if one is not None and other is not None:
                assert sorted(one.tolist()) == sorted(other.tolist())
        assert extended.since(extended.position) is not None
