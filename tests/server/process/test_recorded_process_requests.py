"""Requests of a real process to the API server: the reads at its start, the lease, the recorded scenarios.

Intended differences: ours speaks JSON; it reads the authentication settings once before it follows them
(kube-scheduler twice, with three watches of the same object); it does not check for events.k8s.io/v1; it
lists pods and nodes before it watches them, as kube-scheduler does with the gate WatchListClient off; and its
identity is stowplan's.
"""

import re
from collections import Counter
from urllib.parse import unquote

import pytest

from observed.files import recorded
from scheduler.comparable_writes import same_writes
from server.process.guarded_cluster import Asked
from server.process.process_lives import SCENARIOS, Lives

SETTINGS = "/api/v1/namespaces/kube-system/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
LISTED = ("/api/v1/pods", "/api/v1/nodes")
AGENT = re.compile(r"kube-scheduler/v[\d.]+\S* \(\w+/\w+\) (?:stowplan/[\d.]+|kubernetes/\w+)(/.*)?")

Read = tuple[str, tuple[str, ...], str]
"""A path, its query without how long a watch lasts, and what the client is for."""


def purpose(agent: str) -> str:
    found = AGENT.fullmatch(agent)
    assert found, agent
    return found[1] or ""


def read(path: str, query: list[str], agent: str) -> Read:
    is_lease = path.startswith(LEASES)
    lasting = [part for part in query if is_lease or not part.startswith("timeout")]
    return path, tuple(sorted(lasting)), purpose(agent)


def own(asked: Asked) -> Read:
    query = [f"{key}={value}" for key, value in asked.query.items()]
    return without_version(read(asked.path, query, asked.agent))


def without_version(asked: Read) -> Read:
    """The version that a watch after a list begins with is another in every cluster."""
    path, query, agent = asked
    if path in LISTED:
        query = tuple(re.sub(r"^resourceVersion=[1-9]\d*", "resourceVersion=N", part) for part in query)
    return path, query, agent


def reads_as_recorded() -> Counter[Read]:
    found: Counter[Read] = Counter()
    for one in recorded("wire/reads-at-start")["in_order"]:
        query = list(map(unquote, one["query"]))
        if one["path"] not in LISTED:
            found[read(one["path"], query, one["user_agent"])] += 1
    for one in recorded("wire/watch-behaviour")["w10-gate-WatchListClient-off"]:
        path, _, query = one["url"].partition("?")
        if path in LISTED:
            asked = path, tuple(sorted(p for p in map(unquote, query.split("&")) if "timeout" not in p))
            found[without_version((*asked, "/scheduler"))] += 1
    return found


def test_the_same_is_read_at_the_start(lives: Lives) -> None:
    found = Counter(own(one) for one in lives.at_start if one.method == "GET")
    expected = reads_as_recorded()
    del expected["/apis/events.k8s.io/v1", (), "/scheduler"]
    for asked in expected:
        if asked[0].startswith(SETTINGS):
            expected[asked] = 1
    assert found == expected


def test_watches_last_five_to_ten_minutes(lives: Lives) -> None:
    watches = [one.query for one in lives.at_start if "watch" in one.query]
    assert watches
    for query in watches:
        seconds = int(query["timeoutSeconds"])
        assert 300 <= seconds < 600
        assert query["timeout"] == f"{seconds // 60}m{seconds % 60}s"


def test_the_lease_is_asked_for_when_everything_is_known_and_is_created_then_renewed(lives: Lives) -> None:
    of_lease = [one for one in lives.at_start if one.path.startswith(LEASES)]
    since = lives.at_start[lives.at_start.index(of_lease[0]) :]
    assert [one.path for one in since if one.method == "GET"] == [of_lease[0].path]
    expected = [one for one in recorded("wire/writes")["g-start"] if LEASES in one["url"]][: len(of_lease)]
    assert [(one.method, f"{one.path}?timeout={one.query['timeout']}", one.code) for one in of_lease] == [
        (one["method"], one["url"], one["code"]) for one in expected
    ]
    for mine, theirs in zip(of_lease[1:], expected[1:], strict=True):
        assert mine.body["spec"].keys() == theirs["request"]["spec"].keys()
        assert mine.body["spec"]["leaseDurationSeconds"] == 15


def test_the_leader_is_announced_by_a_core_event(lives: Lives) -> None:
    events = [one for one in lives.asked if one.path == "/api/v1/namespaces/kube-system/events"]
    (theirs,) = [one["request"] for one in recorded("wire/writes")["g-start"] if "/events" in one["url"]]
    holder = theirs["message"].split()[0]
    assert [one.body["message"].partition(" ")[2] for one in events] == ["became leader", "stopped leading"]
    mine = events[0].body
    changing = ("metadata", "involvedObject", "message", "firstTimestamp", "lastTimestamp")
    assert {key: mine[key] for key in theirs if key not in changing} == {
        key: value for key, value in theirs.items() if key not in changing
    }
    assert mine["involvedObject"].keys() == theirs["involvedObject"].keys()
    assert theirs["message"] == f"{holder} became leader"
    assert purpose(events[0].agent) == "/scheduler"


@pytest.mark.parametrize("namespace", SCENARIOS)
def test_the_same_is_written_in_the_recorded_scenarios(namespace: str, lives: Lives) -> None:
    same_writes(lives.writes[namespace], *SCENARIOS[namespace])


def test_every_client_says_what_it_is_for(lives: Lives) -> None:
    """As in the recordings: one for the lease, one for who asks at the port, one for everything else."""
    purposes: dict[str, set[str]] = {}
    for one in lives.asked:
        purposes.setdefault(purpose(one.agent), set()).add(one.path)
    assert purposes.keys() == {"", "/scheduler", "/leader-election"}
    assert all(path.startswith(LEASES) for path in purposes["/leader-election"])
    assert {path.rpartition("/")[2] for path in purposes[""]} == {
        "configmaps",
        "extension-apiserver-authentication",
        "subjectaccessreviews",
        "tokenreviews",
    }


def test_a_leader_that_ends_reads_and_gives_back_the_lease(lives: Lives) -> None:
    of_lease = [one for one in lives.asked if one.path.startswith(LEASES)]
    read_again, given_back = of_lease[-2:]
    assert (read_again.method, given_back.method) == ("GET", "PUT")
    spec = given_back.body["spec"]
    (theirs,) = [
        one["request"]["spec"]
        for one in recorded("wire/writes")["g-release-sigterm"]
        if one["method"] == "PUT" and one["request"]["spec"].get("holderIdentity", "") == ""
    ]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("", theirs["leaseDurationSeconds"])
    assert spec["acquireTime"] == spec["renewTime"]
