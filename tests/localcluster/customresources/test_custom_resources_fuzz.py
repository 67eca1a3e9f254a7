"""Whatever a definition or a custom object says, it is accepted or refused with a reason, and soon."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from effort import examples
from localcluster.apiserver.served import APPLY, MERGE, Served
from localcluster.customresources.definitions import DEFINITIONS, custom, definition, objects, version
from stowplan.api.requests import Json
from waiting import within_cpu

_NAMES = st.sampled_from(["a", "b", "name", "metadata", "kind", "status", "", "x.y", "ü"])
_NUMBERS = st.sampled_from([0, 1, -1, 2, 2**31, 2**63, 10**30, 0.5, 1e300])
_TEXTS = st.sampled_from(["", "a", "(a+)+$", "[", "^x{1000}$", "(?=a)", "\\", "date-time", "int32", "string"])
_JUNK = st.recursive(
    st.one_of(st.none(), st.booleans(), _NUMBERS, _TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_NAMES, inner, max_size=3)),
    max_leaves=8,
)
_PLAIN = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "integer", "number", "boolean"])},
    optional={
        "enum": st.lists(_JUNK, max_size=2),
        "pattern": _TEXTS,
        "format": _TEXTS,
        "minimum": _NUMBERS,
        "maximum": _NUMBERS,
        "multipleOf": _NUMBERS,
        "maxLength": st.integers(-1, 3),
        "default": _JUNK,
        "nullable": st.booleans(),
    },
)


def _larger(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    some = st.lists(inner, max_size=2)
    return st.fixed_dictionaries(
        {"type": st.sampled_from(["object", "array"])},
        optional={
            "properties": st.dictionaries(_NAMES, inner, max_size=3),
            "items": inner,
            "additionalProperties": st.one_of(st.booleans(), inner),
            "required": st.lists(_NAMES, max_size=2),
            "oneOf": some,
            "anyOf": some,
            "allOf": some,
            "not": inner,
            "default": _JUNK,
            "x-kubernetes-list-type": st.sampled_from(["atomic", "set", "map", "odd"]),
            "x-kubernetes-list-map-keys": st.lists(_NAMES, max_size=2),
            "x-kubernetes-map-type": st.sampled_from(["atomic", "granular"]),
            "x-kubernetes-preserve-unknown-fields": st.booleans(),
            "x-kubernetes-embedded-resource": st.booleans(),
            "x-kubernetes-int-or-string": st.booleans(),
            "x-kubernetes-validations": st.lists(st.dictionaries(st.just("rule"), _TEXTS), max_size=1),
            "maxItems": st.integers(-1, 2),
            "minProperties": st.integers(-1, 2),
        },
    )


_SCHEMAS: st.SearchStrategy[Json] = st.recursive(_PLAIN, _larger, max_leaves=6)
_QUICK = settings(max_examples=examples(50), deadline=None, suppress_health_check=list(HealthCheck))


def check(code: int, body: Any) -> None:
    """A refusal is the client's fault, and says why."""
    assert code < 500 or "failed to create typed patch object" in body["message"], body
    if code >= 400:
        assert body["kind"] == "Status"
        assert body["message"]


@_QUICK
@given(_SCHEMAS, st.lists(_JUNK, min_size=1, max_size=3))
def test_random_schemas_and_objects(api: Served, schema: Json, values: list[Any]) -> None:
    made = api.ask("POST", DEFINITIONS, definition("fuzzes", kind="Fuzz", versions=[version(schema=schema)]))
    check(made.code, made.body)
    if made.code != 201:
        assert made.code in (400, 422)
        return
    try:
        for i, value in enumerate(values):
            body = custom("Fuzz", f"f{i}", spec=value)
            answer = api.ask("POST", objects("fuzzes"), body)
            check(answer.code, answer.body)
            if answer.code == 201:
                again = api.ask("PUT", f"{objects('fuzzes')}/f{i}", answer.body)
                assert (again.code, again.body) == (200, answer.body), "what was accepted stays acceptable"
            patched = api.ask("PATCH", f"{objects('fuzzes')}/f{i}", {"spec": value}, Content_Type=MERGE)
            check(patched.code, patched.body)
            applied = api.ask("PATCH", f"{objects('fuzzes')}/g{i}?fieldManager=m", body, Content_Type=APPLY)
            check(applied.code, applied.body)
        assert api.ask("GET", "/openapi/v3/apis/example.com/v1").code == 200
        assert (
            api.ask("GET", objects("fuzzes"), Accept="application/json;as=Table;v=v1;g=meta.k8s.io").code
            == 200
        )
    finally:
        assert api.ask("DELETE", f"{DEFINITIONS}/fuzzes.example.com").code == 200


@_QUICK
@given(
    st.dictionaries(
        st.sampled_from(["group", "scope", "names", "versions", "conversion", "preserveUnknownFields"]),
        _JUNK,
        min_size=1,
    ),
    st.dictionaries(
        st.sampled_from(
            ["schema", "subresources", "additionalPrinterColumns", "selectableFields", "name", "storage"]
        ),
        _JUNK,
    ),
)
def test_random_definitions(api: Served, spec: Json, part: Json) -> None:
    for body in (
        definition("fuzzes", **spec),
        definition("fuzzes", versions=[version(**part) if "name" not in part else {**version(), **part}]),
    ):
        answer = api.ask("POST", DEFINITIONS, body)
        check(answer.code, answer.body)
        if answer.code == 201:
            assert api.ask("GET", "/openapi/v2").code == 200
            assert api.ask("DELETE", f"{DEFINITIONS}/{answer.body['metadata']['name']}").code == 200


def test_deep_schemas_and_costly_patterns_do_not_hold_the_server(api: Served) -> None:
    deep: Json = {"type": "string"}
    for _ in range(200):
        deep = {"type": "object", "properties": {"a": deep}}
    assert api.ask("POST", DEFINITIONS, definition("deeps", versions=[version(schema=deep)])).code == 400
    patterned = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}
    assert (
        api.ask("POST", DEFINITIONS, definition("greeds", versions=[version(schema=patterned)])).code == 201
    )
    with within_cpu(20):
        answer = api.ask("POST", objects("greeds"), custom("Greed", "g", spec={"a": "a" * 100_000 + "b"}))
    assert answer.code == 422
    columns = [{"name": "A", "type": "string", "jsonPath": "." + "a" * 5000}]
    answer = api.ask(
        "POST", DEFINITIONS, definition("longs", versions=[version(additionalPrinterColumns=columns)])
    )
    check(answer.code, answer.body)
