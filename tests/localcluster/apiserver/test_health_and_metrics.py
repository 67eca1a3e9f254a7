"""Health checks, metrics and the objects of API Priority and Fairness."""

import re
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from localcluster.apiserver.served import PODS, Served, pod, serving
from stowplan.api.catalogue import CLUSTER_ROLES, FLOW_SCHEMAS, PRIORITY_LEVEL_CONFIGURATIONS
from stowplan.api.status import ApiError
from stowplan.localcluster.store import Store

LEVELS = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations"
SCHEMAS = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"


@pytest.fixture
def own() -> Iterator[Served]:
    """A server of its own, whose requests are counted and whose objects may go."""
    with serving() as served:
        yield served


def text(answer: object) -> str:
    body = getattr(answer, "body", b"")
    return body.decode() if isinstance(body, bytes) else str(body)


@pytest.mark.parametrize("endpoint", ["healthz", "livez", "readyz"])
def test_checks_are_listed_excluded_and_asked_one_by_one(api: Served, endpoint: str) -> None:
    assert text(api.ask("GET", f"/{endpoint}")) == "ok"
    lines = text(api.ask("GET", f"/{endpoint}?verbose")).splitlines()
    assert lines[0] == "[+]ping ok"
    assert lines[-1] == f"{endpoint} check passed"
    assert "[+]poststarthook/rbac/bootstrap-roles ok" in lines
    assert ("[+]shutdown ok" in lines) is (endpoint == "readyz")
    shown = text(api.ask("GET", f"/{endpoint}?verbose&exclude=etcd&exclude=none")).splitlines()
    assert "[+]etcd excluded: ok" in shown
    assert 'warn: some health checks cannot be excluded: no matches for "none"' in shown
    for name in [re.sub(r"^\[\+\](\S+) ok$", r"\1", line) for line in lines[:-1]]:
        assert text(api.ask("GET", f"/{endpoint}/{name}")) == "ok"
    assert api.ask("GET", f"/{endpoint}/none").code == 404


def test_a_check_that_fails_is_told_without_its_reason(own: Served) -> None:
    own.run(lambda store: store.delete(CLUSTER_ROLES, "", "cluster-admin"))
    answer = own.ask("GET", "/readyz")
    assert answer.code == 500
    assert "[-]poststarthook/rbac/bootstrap-roles failed: reason withheld" in text(answer)
    assert text(answer).endswith("readyz check failed\n")
    assert own.ask("GET", "/readyz?exclude=poststarthook/rbac/bootstrap-roles").code == 200
    alone = own.ask("GET", "/readyz/poststarthook/rbac/bootstrap-roles")
    assert (alone.code, text(alone)) == (500, "internal server error: not finished\n")


def test_a_start_that_has_finished_stays_finished(own: Served) -> None:
    assert own.ask("GET", "/livez").code == 200
    own.run(lambda store: store.delete(CLUSTER_ROLES, "", "cluster-admin"))
    assert own.ask("GET", "/livez").code == 200


def test_a_server_that_can_save_nothing_is_alive_and_not_ready(
    own: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(store: Store) -> None:
        raise ApiError(503, "ServiceUnavailable", "the disk is full")

    monkeypatch.setattr(Store, "admit_writes", refuse)
    assert own.ask("GET", "/livez").code == 200
    answer = own.ask("GET", "/readyz")
    assert (answer.code, "[-]etcd-readiness failed: reason withheld" in text(answer)) == (500, True)


def test_anybody_may_ask_for_health_but_not_for_metrics(api: Served) -> None:
    def code(path: str) -> int:
        return api.ask("GET", path, Authorization="").code

    assert [code("/livez?verbose"), code("/metrics"), code("/readyz/etcd")] == [200, 403, 403]
    assert api.ask("GET", "/metrics", Impersonate_User="bob").code == 403


def counted(served: Served, **labels: str) -> float:
    body = text(served.ask("GET", "/metrics"))
    families = {one.name: one for one in text_string_to_metric_families(body)}
    return sum(
        sample.value
        for sample in families["apiserver_request"].samples
        if labels.items() <= sample.labels.items()
    )


def test_requests_are_counted_by_verb_resource_and_code(own: Served) -> None:
    for name in ("a", "b"):
        own.ask("POST", PODS, pod(name))
    own.ask("POST", PODS, pod("a"))
    own.ask("POST", f"{PODS}?dryRun=All", pod("c"))
    own.ask("GET", PODS)
    own.ask("GET", f"{PODS}/a")
    own.ask("GET", f"{PODS}/none")
    own.ask("GET", f"{PODS}/a/made-up-{'x' * 100}")
    next(own.watch(f"{PODS}?watch=true&timeoutSeconds=1"))
    pods = {"resource": "pods", "version": "v1", "group": ""}
    assert counted(own, verb="POST", code="201", dry_run="", **pods) == 2
    assert counted(own, verb="POST", code="201", dry_run="All", **pods) == 1
    assert counted(own, verb="POST", code="409", **pods) == 1
    assert counted(own, verb="LIST", code="200", scope="namespace", **pods) == 1
    assert counted(own, verb="GET", code="200", scope="resource", **pods) == 1
    assert counted(own, verb="GET", code="404", scope="resource", **pods) == 2
    assert "made-up" not in text(own.ask("GET", "/metrics"))
    body = text(own.ask("GET", "/metrics"))
    families = {one.name: one for one in text_string_to_metric_families(body)}
    durations = families["apiserver_request_duration_seconds"].samples
    posts = [one for one in durations if one.labels["verb"] == "POST" and one.labels["dry_run"] == ""]
    assert [one.value for one in posts if one.name.endswith("_count")] == [3]
    assert [one.value for one in posts if one.labels.get("le") == "+Inf"] == [3]
    objects = {one.labels["resource"]: one.value for one in families["apiserver_resource_objects"].samples}
    assert objects["pods"] == 2
    assert families["apiserver_current_inflight_requests"].samples[1].value == 1, "this request"


def test_there_are_the_levels_and_schemas_of_every_cluster(api: Served) -> None:
    levels = {one["metadata"]["name"]: one for one in api.ask("GET", LEVELS).body["items"]}
    schemas = {one["metadata"]["name"]: one for one in api.ask("GET", SCHEMAS).body["items"]}
    assert len(levels) == 8
    assert levels["exempt"]["spec"]["type"] == "Exempt"
    assert levels["catch-all"]["spec"]["limited"]["limitResponse"] == {"type": "Reject"}
    assert len(schemas) == 11
    for schema in schemas.values():
        assert schema["spec"]["priorityLevelConfiguration"]["name"] in levels
        assert schema["status"]["conditions"][0]["status"] == "False"
    precedence = {name: one["spec"]["matchingPrecedence"] for name, one in schemas.items()}
    assert (precedence["exempt"], precedence["catch-all"]) == (1, 10000)
    # They are valid: writing them again changes nothing.
    for where, found in ((LEVELS, levels["system"]), (SCHEMAS, schemas["system-leader-election"])):
        again = api.ask("PUT", f"{where}/{found['metadata']['name']}", found)
        assert again.body["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"]
    assert FLOW_SCHEMAS.status
    assert PRIORITY_LEVEL_CONFIGURATIONS.status
