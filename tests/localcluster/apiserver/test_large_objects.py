"""The cost of large objects grows with their size, not with its square."""

from collections.abc import Iterator
from typing import Any

import pytest

from localcluster.apiserver.served import APPLY, MERGE, PODS, STRATEGIC, Served, pod, serving

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def api() -> Iterator[Served]:
    with serving() as served:
        yield served


def test_constraints_and_owners_that_come_twice_are_found_among_many(api: Served) -> None:
    def spread(key: str) -> dict[str, Any]:
        return {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}

    keys = [*(f"k{number}" for number in range(2_000)), "k7"]
    answer = api.ask(
        "POST", PODS, pod("p", spec={"topologySpreadConstraints": [spread(key) for key in keys]})
    )
    assert answer.code == 422
    (cause,) = answer.body["details"]["causes"]
    assert cause["field"] == "spec.topologySpreadConstraints[7].{topologyKey, whenUnsatisfiable}"
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": f"u{n % 3_000}"} for n in range(3_001)]
    answer = api.ask("POST", PODS, pod("owned", ownerReferences=owners))
    assert answer.code == 201
    assert answer.headers["Warning"].count("u0") == 1


def test_a_forbidden_change_of_a_large_pod_is_refused_without_a_long_comparison(api: Served) -> None:
    assert api.ask("POST", PODS, pod("large")).code == 201
    env = [{"name": f"E{number}", "value": "x"} for number in range(3_000)]
    patch: dict[str, Any] = {"spec": {"containers": [{"name": "main", "env": env}]}}
    answer = api.ask("PATCH", f"{PODS}/large", patch, Content_Type=STRATEGIC)
    assert answer.code == 422
    assert "too many to compare" in answer.body["message"]
    tolerations = [{"key": f"k{number}", "operator": "Exists"} for number in range(3_000)]
    for kept, code in ((tolerations, 200), (tolerations[1:], 422)):
        patch = {"spec": {"tolerations": kept}}
        assert api.ask("PATCH", f"{PODS}/large", patch, Content_Type=MERGE).code == code


def test_nesting_is_counted_outside_of_strings(api: Served) -> None:
    def nested(levels: int, inner: bytes = b"1") -> bytes:
        return b'{"metadata":{"name":"n"},"x":' + b"[" * levels + inner + b"]" * levels + b"}"

    assert api.ask("POST", CONFIG_MAPS, nested(99)).code == 201
    deep = api.ask("POST", CONFIG_MAPS, nested(100))
    assert (deep.code, "nested more than 100 levels" in deep.body["message"]) == (400, True)
    text = b'"' + b'[\\"{' * 1_000 + b'"'
    assert api.ask("POST", CONFIG_MAPS, nested(1, text)).code == 409


def test_long_objects_are_answered_in_the_yaml_that_is_json(api: Served) -> None:
    data = {f"k{number}": "v" * 20 for number in range(3_000)}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "long"}, "data": data}
    assert api.ask("PATCH", f"{CONFIG_MAPS}/long?fieldManager=m", body, Content_Type=APPLY).code == 201
    answer = api.ask("GET", f"{CONFIG_MAPS}/long", Accept="application/yaml")
    assert answer.headers["Content-Type"].startswith("application/yaml")
    assert answer.body[:1] == b"{"
    short = api.ask("GET", "/api/v1/namespaces/default", Accept="application/yaml")
    assert short.body.startswith(b"apiVersion: v1\n")


def test_yaml_that_stands_for_more_than_could_be_sent_is_refused(api: Served) -> None:
    merges = ["m0: &m0 {a: 1}"]
    for level in range(1, 12):
        merges.append(f"m{level}: &m{level} {{<<: [{', '.join([f'*m{level - 1}'] * 30)}]}}")
    texts = f"a: &a {'x' * 30_000}\nb: [{', '.join(['*a'] * 900)}]"
    for text in ("\n".join(merges), texts):
        for method, path, kind in (
            ("POST", CONFIG_MAPS, "application/yaml"),
            ("PATCH", f"{CONFIG_MAPS}/y?fieldManager=m", APPLY),
        ):
            answer = api.ask(method, path, text.encode(), Content_Type=kind)
            assert (answer.code, "excessive aliasing" in answer.body["message"]) == (400, True)


def test_a_table_of_many_rows_is_one_table(api: Served) -> None:
    for number in range(250):
        api.create_pod(pod(f"row-{number}", labels={"rows": "many"}))
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    for selector, count in (("rows=many", 250), ("rows=none", 0)):
        answer = api.ask("GET", f"{PODS}?labelSelector={selector}", Accept=accept)
        assert (answer.code, answer.body["kind"], len(answer.body["rows"] or ())) == (200, "Table", count)
