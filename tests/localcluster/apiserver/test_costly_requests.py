"""Small requests that would keep a careless server busy for long: refused, or done in no time."""

import time
from typing import Any

import msgspec
import pytest

from localcluster.apiserver.served import APPLY, JSON_PATCH, STRATEGIC, Served, pod
from stowplan.localcluster.customresources.jsonpath import MOST_VALUES, JsonPath
from stowplan.localcluster.schema.protobuf import encoded_text
from stowplan.localcluster.store.patches import apply_json_patch
from waiting import within_cpu

REVISIONS = "/apis/apps/v1/namespaces/default/controllerrevisions"
PODS = "/api/v1/namespaces/default/pods"
MANY = 8000
ENOUGH = 20.0
"""Seconds of CPU; the slowest of these takes a tenth of it."""


@pytest.fixture(autouse=True)
def in_time() -> Any:
    with within_cpu(ENOUGH):
        yield


def test_a_patch_that_doubles_an_object_again_and_again_is_refused(api: Served) -> None:
    api.ask("POST", REVISIONS, {"metadata": {"name": "d"}, "revision": 1, "data": {"a": "x" * 100}})
    patch = [{"op": "copy", "from": "/data", "path": f"/data/c{number}"} for number in range(60)]
    answer = api.ask("PATCH", f"{REVISIONS}/d", patch, Content_Type=JSON_PATCH)
    assert (answer.code, answer.body["reason"]) == (413, "RequestEntityTooLarge")
    small = api.ask("PATCH", f"{REVISIONS}/d", patch[:3], Content_Type=JSON_PATCH)
    assert (small.code, small.body["reason"]) == (422, "Invalid"), "the data of a revision never changes"


def test_an_index_of_many_digits_is_no_index(api: Served) -> None:
    api.ask("POST", PODS, pod("indexed"))
    patch = [{"op": "remove", "path": f"/spec/containers/{'1' * 5000}"}]
    assert api.ask("PATCH", f"{PODS}/indexed", patch, Content_Type=JSON_PATCH).code == 422


def long_list(name: str, value: str, count: int = MANY) -> dict[str, Any]:
    env = [{"name": f"V{number}", "value": value} for number in range(count)]
    body = pod(name)
    body["spec"]["containers"][0]["env"] = env
    return body


def test_long_lists_are_applied_contested_and_taken_away_in_time(api: Served) -> None:
    path = f"{PODS}/long?fieldManager="
    assert api.ask("PATCH", f"{path}a", long_list("long", "1"), Content_Type=APPLY).code == 201
    refused = api.ask("PATCH", f"{path}b", long_list("long", "2"), Content_Type=APPLY)
    assert refused.code == 409
    assert refused.body["message"].startswith(f"Apply failed with {MANY} conflicts")
    assert api.ask("PATCH", f"{path}a", pod("long"), Content_Type=APPLY).code == 422


def test_long_lists_are_merged_in_time(api: Served) -> None:
    api.ask("POST", PODS, long_list("merged", "1"))
    env = [{"$patch": "delete", "name": f"V{number}"} for number in range(MANY)]
    patch = {"spec": {"containers": [{"name": "main", "env": env}]}}
    answer = api.ask("PATCH", f"{PODS}/merged?dryRun=All", patch, Content_Type=STRATEGIC)
    assert answer.code == 422
    assert "pod updates may not change fields" in answer.body["message"]


def test_long_yaml_is_not_read(api: Served) -> None:
    text = b"a: b\n" * 20_000
    answer = api.ask("POST", PODS, text, Content_Type="application/yaml")
    assert (answer.code, answer.body["reason"]) == (413, "RequestEntityTooLarge")


def test_warnings_are_few_and_short(api: Served) -> None:
    body = pod("warned")
    body["spec"] |= {f"unknown-{number}-{'x' * 500}": number for number in range(2000)}
    answer = api.ask("POST", PODS, body)
    assert answer.code == 201
    warnings = answer.headers.get_all("Warning")
    assert len(warnings) == 30
    assert max(map(len, warnings)) < 300


def test_long_amounts_and_names_are_refused_in_time(api: Served) -> None:
    long = {"cpu": "1" * 100_000, "memory": "9" * 40 + "Ei", "x" * 100_000: "1"}
    body = pod("a." * 50_000, labels={"-" * 100_000: "." * 100_000})
    body["spec"]["containers"][0]["resources"] = {"requests": long}
    assert api.ask("POST", PODS, body).code == 422


def config_map(name: str, keys: int) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": {f"k{number}": "v" for number in range(keys)}}


def test_operations_of_a_patch_do_not_copy_the_object_each_time() -> None:
    """Fifty times the object costs a little more: it is copied once, not for each of the operations."""
    patch = [{"op": "add", "path": f"/data/n{number}", "value": "x"} for number in range(2_000)]
    small, large = (cpu_seconds(config_map("p", keys), patch) for keys in (1_000, 50_000))
    assert large < 10 * small


def cpu_seconds(object: dict[str, Any], patch: list[dict[str, Any]]) -> float:
    """The least of three runs."""

    def once() -> float:
        began = time.process_time()
        apply_json_patch(object, patch)
        return time.process_time() - began

    return min(once() for _ in range(3))


@pytest.mark.parametrize("text", [b'"m":{"k%d":1}', b'"a":%d', b'"l%d":[{"a":1,"a":2}]'])
def test_fields_that_are_there_many_times_are_read_in_time(api: Served, text: bytes) -> None:
    """Maps of one name are merged, which took the square of their number."""
    fields = b",".join(text % number for number in range(100_000))
    body = b'{"metadata":{"name":"repeated"},"data":{%b}}' % fields
    answer = api.ask("POST", f"{REVISIONS}?dryRun=All&fieldValidation=Strict", body)
    assert answer.code == 400
    assert answer.body["message"].count("duplicate field") <= 100


class Seen(dict[str, Any]):
    """An object that knows how often it was looked into."""

    looks = 0

    def values(self) -> Any:
        type(self).looks += 1
        return super().values()


def test_a_printer_column_looks_at_so_many_values_and_no_more() -> None:
    """Each `..` looks again at all that the one before found."""
    Seen.looks = 0
    data: Any = Seen(last=1)
    for _ in range(60):
        data = Seen(next=data)
    assert JsonPath("$................zzz").first(data) == []
    assert Seen.looks <= MOST_VALUES
    assert JsonPath("$..last").first(data) == [1]
    assert JsonPath("$" + ".a" * 2000).first({}) == []


def test_a_list_is_written_as_protobuf_object_by_object() -> None:
    """Others are served between two steps."""
    items = [{"metadata": {"name": f"p{number}"}} for number in range(50)]
    listing = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": items}
    assert len([*encoded_text(msgspec.json.encode(listing))]) == len(items)
