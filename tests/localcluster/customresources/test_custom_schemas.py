"""Structural schemas: which are accepted, and what they say of values, in the words of the Kubernetes API."""

# ruff: noqa: E501 - a message stands on one line

from typing import Any

import pytest

from stowplan.api.requests import Json
from stowplan.localcluster.customresources.defaulting import drop_stray_nulls, prune, set_defaults
from stowplan.localcluster.customresources.formats import string_format
from stowplan.localcluster.customresources.jsonpath import JsonPath, JsonPathError
from stowplan.localcluster.customresources.schemarules import schema_rule_errors
from stowplan.localcluster.customresources.structural import StructuralSchema
from stowplan.localcluster.customresources.validation import embedded_errors, list_errors, schema_errors


def of(**fields: Json) -> Json:
    return {"type": "object", "properties": fields}


TEXT: Json = {"type": "string"}
NUMBER: Json = {"type": "integer"}


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        (NUMBER, 3, []),
        (NUMBER, 3.0, []),
        (
            NUMBER,
            3.5,
            [
                'x: Invalid value: "number": x in body must be of type integer: "number"',
                '<nil>: Invalid value: "": Checked value must be of type integer (default format) in x',
            ],
        ),
        (NUMBER, True, ['x: Invalid value: "boolean": x in body must be of type integer: "boolean"']),
        (NUMBER, None, ['x: Invalid value: "null": x in body must be of type integer: "null"']),
        ({**NUMBER, "nullable": True}, None, []),
        ({"type": "number"}, 3, []),
        ({"x-kubernetes-int-or-string": True}, "8080", []),
        (
            {"x-kubernetes-int-or-string": True},
            True,
            ['x: Invalid value: "boolean": x in body must be of type integer,string: "boolean"'],
        ),
        ({**NUMBER, "format": "int32"}, 2**31, ['<nil>: Invalid value: "": Checked value must be of type integer with format int32 in x']),
        ({**NUMBER, "maximum": 3}, 4, ["x: Invalid value: 4: x in body should be less than or equal to 3"]),
        ({**NUMBER, "maximum": 3, "exclusiveMaximum": True}, 3, ["x: Invalid value: 3: x in body should be less than 3"]),
        ({"type": "number", "minimum": 0.5}, 0.25, ["x: Invalid value: 0.25: x in body should be greater than or equal to 0.5"]),
        ({**NUMBER, "multipleOf": 5}, 7, ["x: Invalid value: 7: x in body should be a multiple of 5"]),
        ({**TEXT, "enum": ["a", "b"]}, "c", ['x: Unsupported value: "c": supported values: "a", "b"']),
        ({**NUMBER, "enum": [1, 2]}, 3, ['x: Unsupported value: 3: supported values: "1", "2"']),
        ({**TEXT, "maxLength": 2}, "abc", ["x: Too long: may not be more than 2 bytes"]),
        ({**TEXT, "minLength": 2}, "a", ['x: Invalid value: "a": x in body should be at least 2 chars long']),
        ({**TEXT, "pattern": "^a+$"}, "b", ['x: Invalid value: "b": x in body should match \'^a+$\'']),
        ({**TEXT, "format": "date-time"}, "now", ['x: Invalid value: "now": x in body must be of type date-time: "now"']),
        ({**TEXT, "format": "who-knows"}, "anything", []),
        ({"type": "array", "items": TEXT, "maxItems": 1}, ["a", "b"], ["x: Too many: 2: must have at most 1 items"]),
        ({"type": "array", "items": TEXT, "minItems": 1}, [], ["x: Invalid value: 0: x in body should have at least 1 items"]),
        ({"type": "array", "items": NUMBER}, [1, "a"], ['x[1]: Invalid value: "string": x[1] in body must be of type integer: "string"']),
        ({"type": "object", "additionalProperties": NUMBER}, {"k": "v"}, ['x.k: Invalid value: "string": x.k in body must be of type integer: "string"']),
        ({"type": "object", "maxProperties": 1, "additionalProperties": NUMBER}, {"a": 1, "b": 2}, ["x: Too many: 2: must have at most 1 items"]),
        ({**of(a=TEXT), "required": ["a"]}, {}, ["x.a: Required value"]),
        (
            {**of(a=TEXT, b=TEXT), "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {},
            [
                '<nil>: Invalid value: "": "x" must validate one and only one schema (oneOf). Found none valid',
                "x.a: Required value",
            ],
        ),
        (
            {**of(a=TEXT, b=TEXT), "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {"a": "", "b": ""},
            ['<nil>: Invalid value: "": "x" must validate one and only one schema (oneOf). Found 2 valid alternatives'],
        ),
        (
            {**of(a=NUMBER), "anyOf": [{"required": ["a"]}]},
            {},
            ['<nil>: Invalid value: "": "x" must validate at least one schema (anyOf)', "x.a: Required value"],
        ),
        (
            {**NUMBER, "allOf": [{"minimum": 2}, {"maximum": 5}]},
            7,
            [
                "x: Invalid value: 7: x in body should be less than or equal to 5",
                '<nil>: Invalid value: "": "x" must validate all the schemas (allOf)',
            ],
        ),
        ({**NUMBER, "not": {"enum": [3]}}, 3, ['<nil>: Invalid value: "": "x" must not validate the schema (not)']),
    ],
)  # fmt: skip
def test_validation(schema: Json, value: Any, expected: list[str]) -> None:
    assert schema_errors(StructuralSchema(of(x=schema)), {"x": value}) == expected


def test_errors_in_a_status_are_told_below_it() -> None:
    schema = StructuralSchema({**of(phase=NUMBER), "required": ["size"]})
    assert schema_errors(schema, {"phase": "a"}, "status") == [
        'status.phase: Invalid value: "string": phase in body must be of type integer: "string"',
        "status.size: Required value",
    ]


def test_repeated_elements() -> None:
    keyed = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name", "port"],
        "items": of(
            name=TEXT, port=NUMBER, more={"type": "array", "x-kubernetes-list-type": "set", "items": TEXT}
        ),
    }
    value = {
        "x": [
            {"name": "a", "port": 1, "more": ["y", "z", "y", "y"]},
            {"name": "a", "port": 2},
            {"port": 1, "name": "a"},
        ]
    }
    assert [*list_errors(StructuralSchema(of(x=keyed)), value)] == [
        'x[2]: Duplicate value: {"name":"a","port":1}',
        'x[0].more[2]: Duplicate value: "y"',
    ]


def test_objects_within_objects() -> None:
    pod = {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    }
    schema = StructuralSchema(of(template=pod))
    assert [*embedded_errors(schema, {"template": {"kind": "Pod", "apiVersion": "v1", "spec": {}}})] == []
    wrong = {"template": {"kind": "p o d", "metadata": {"name": "a/b", "labels": {"-": "x"}}}}
    assert [error.path for error in embedded_errors(schema, wrong)] == [
        "template.apiVersion",
        "template.kind",
        "template.metadata.name",
        "template.metadata.labels",
    ]


def test_pruning_keeps_what_is_specified_or_preserved() -> None:
    schema = StructuralSchema(
        of(
            spec=of(
                a=NUMBER,
                free={**of(known=of(x=NUMBER)), "x-kubernetes-preserve-unknown-fields": True},
                each={"type": "object", "additionalProperties": of(x=NUMBER)},
                list={"type": "array", "items": of(x=NUMBER)},
            )
        )
    )
    obj = {
        "apiVersion": "v1",
        "kind": "K",
        "metadata": {"name": "n"},
        "other": 1,
        "spec": {
            "a": 1,
            "b": {"c": 2},
            "free": {"any": {"thing": 1}, "known": {"x": 1, "y": 2}},
            "each": {"k": {"x": 1, "y": 2}},
            "list": [{"x": 1, "y": 2}],
        },
    }
    assert prune(schema, obj) == ["other", "spec.b", "spec.each.k.y", "spec.free.known.y", "spec.list[0].y"]
    assert obj == {
        "apiVersion": "v1",
        "kind": "K",
        "metadata": {"name": "n"},
        "spec": {
            "a": 1,
            "free": {"any": {"thing": 1}, "known": {"x": 1}},
            "each": {"k": {"x": 1}},
            "list": [{"x": 1}],
        },
    }


def test_defaults_and_nulls() -> None:
    inner = {**of(n={**NUMBER, "default": 1}, m={**TEXT, "nullable": True, "default": "m"}), "default": {}}
    schema = StructuralSchema(
        of(a=inner, list={"type": "array", "items": of(k={**TEXT, "default": "v"})}, plain=TEXT)
    )
    obj: Json = {"list": [{}, {"k": "own"}], "plain": None}
    drop_stray_nulls(schema, obj)
    set_defaults(schema, obj)
    assert obj == {"a": {"n": 1, "m": "m"}, "list": [{"k": "v"}, {"k": "own"}]}
    obj = {"a": {"n": None, "m": None}}
    drop_stray_nulls(schema, obj)
    set_defaults(schema, obj)
    assert obj == {"a": {"n": 1, "m": None}}
    obj["a"]["x"] = 1
    other: Json = {}
    set_defaults(schema, other)
    assert other == {"a": {"n": 1, "m": "m"}}, "a default belongs to nobody"


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({}, "s.type: Required value: must not be empty at the root"),
        ({"type": "array", "items": TEXT}, 's.type: Invalid value: "array": must be object at the root'),
        (of(a={}), "s.properties[a].type: Required value: must not be empty for specified object fields"),
        (of(a={"type": "array"}), "s.properties[a].items: Required value: must be specified"),
        (of(a={"type": "array", "items": {}}), "s.properties[a].items.type: Required value: must not be empty for specified array items"),
        ({**of(), "additionalProperties": TEXT}, "s.additionalProperties: Forbidden: must not be used at the root"),
        (of(a={**of(b=TEXT), "additionalProperties": TEXT}), "s.properties[a].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"),
        (of(a={**TEXT, "anyOf": [{"type": "string"}]}), "s.properties[a].anyOf[0].type: Forbidden: must be empty to be structural"),
        ({**of(), "allOf": [{"properties": {"b": {"minimum": 1}}}]}, "s.properties[b]: Required value: because it is defined in s.allOf[0].properties[b]"),
        (of(a={**TEXT, "pattern": "(?=x)"}), 's.properties[a].pattern: Invalid value: "(?=x)": must be a valid regular expression, but isn\'t: error parsing regexp: invalid or unsupported Perl syntax: `(?=`'),
        (of(a={**TEXT, "default": 5}), 's.properties[a].default: Invalid value: "integer":  in body must be of type string: "integer"'),
        (of(a={**of(b=TEXT), "default": {"c": 1}}), 's.properties[a].default: Invalid value: {"c":1}: must not have unknown fields'),
        (of(a={"type": "array", "items": of(k=TEXT), "x-kubernetes-list-type": "map"}), "s.properties[a].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map"),
        (of(a={"type": "array", "items": of(k=TEXT), "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}), "s.properties[a].items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"),
        (of(a={"type": "array", "items": of(k=TEXT), "x-kubernetes-list-type": "set"}), "s.properties[a].items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set"),
        (of(a={**TEXT, "x-kubernetes-list-type": "set"}), 's.properties[a].type: Invalid value: "string": must be array if x-kubernetes-list-type is specified'),
        (of(a={**of(), "x-kubernetes-map-type": "odd"}), 's.properties[a].x-kubernetes-map-type: Unsupported value: "odd": supported values: "atomic", "granular"'),
        (of(a={"type": "object", "x-kubernetes-embedded-resource": True}), "s.properties[a].properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"),
        (of(metadata=of(labels=of())), "s.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified"),
        (of(a={**TEXT, "uniqueItems": True}), "s.properties[a].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic"),
        (of(a={"$ref": "#/x"}), "s.properties[a].$ref: Forbidden: $ref is not supported"),
        (of(a={**TEXT, "x-kubernetes-validations": [{"rule": " "}]}), "s.properties[a].x-kubernetes-validations[0].rule: Required value: rule is not specified"),
    ],
)  # fmt: skip
def test_schemas_that_are_refused(schema: Json, expected: str) -> None:
    assert expected in schema_rule_errors(schema, "s", has_status=False)


def test_schemas_as_operators_write_them_are_accepted() -> None:
    quantity = {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": True,
        "pattern": "^[0-9]+m?$",
    }
    schema = of(
        metadata={"type": "object"},
        spec={
            **of(
                limits={"type": "object", "additionalProperties": quantity},
                port={"x-kubernetes-int-or-string": True},
                raw={"x-kubernetes-preserve-unknown-fields": True},
                conditions={
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["type"],
                    "items": {**of(type=TEXT), "required": ["type"]},
                },
                secret={**of(name={**TEXT, "default": ""}), "x-kubernetes-map-type": "atomic"},
                when={**TEXT, "format": "date-time", "nullable": True},
            ),
            "oneOf": [{"required": ["port"]}, {"required": ["raw"]}],
        },
    )  # fmt: skip
    assert schema_rule_errors(schema, "s", has_status=True) == []


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".spec.size", [3]),
        ("$.spec.size", [3]),
        (".spec.none.deeper", []),
        (".spec.list[0]", ["a"]),
        (".spec.list[-1:]", ["b"]),
        (".spec.list[*]", ["a"]),
        (".spec['size','list']", [3]),
        (r".metadata.annotations.example\.com/x", ["y"]),
        ('.conditions[?(@.type=="Ready")].status', ["True"]),
        ("..status", ["False"]),
        (".conditions[?(@.age>3)].type", ["Ready"]),
        (".conditions[?(@.age)].type", ["Ready"]),
    ],
)
def test_json_paths(path: str, expected: list[Any]) -> None:
    obj = {
        "metadata": {"annotations": {"example.com/x": "y"}},
        "spec": {"size": 3, "list": ["a", "b"]},
        "conditions": [{"type": "Live", "status": "False"}, {"type": "Ready", "status": "True", "age": 5}],
    }
    assert JsonPath(path).first(obj) == expected


@pytest.mark.parametrize("path", [".spec[", ".a[x]", ".a b", ".a[::0]"])
def test_json_paths_that_cannot_be_read(path: str) -> None:
    with pytest.raises(JsonPathError):
        JsonPath(path)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        (
            "date-time",
            ["2026-11-17T10:00:00Z", "2026-11-17t10:00:00.5+01:00"],
            ["2026-11-17", "2026-13-17T10:00:00Z"],
        ),
        ("date", ["2026-02-28"], ["2026-02-30", "26-2-3"]),
        ("duration", ["1h5m", "22 ns", "3 days"], ["", "soon"]),
        ("ipv4", ["10.0.0.1"], ["10.0.0", "10.0.0.256"]),
        ("ipv6", ["::1", "fe80::1"], ["10.0.0.1", "xyz"]),
        ("cidr", ["10.0.0.0/8", "::/0"], ["10.0.0.0", "10.0.0.0/33"]),
        ("mac", ["00:00:5e:00:53:01", "0000.5e00.5301"], ["00:00"]),
        ("uuid", ["123e4567-e89b-12d3-a456-426614174000"], ["123"]),
        ("uri", ["https://example.com/x", "/path"], ["example.com", "http://a b"]),
        ("email", ["a@b.c"], ["a", "@b"]),
        ("hostname", ["example.com", "host"], ["-a.com", "a..b"]),
        ("byte", ["YWJj"], ["YWJ", "*"]),
        ("isbn", ["0321751043", "978-0321751041"], ["0321751044"]),
        ("creditcard", ["4111 1111 1111 1111"], ["4111 1111 1111 1112"]),
        ("hexcolor", ["#fff"], ["#ffff"]),
        ("rgbcolor", ["rgb(1, 2, 255)"], ["rgb(1,2,256)"]),
        ("ssn", ["111-22-3333"], ["1112233333"]),
        ("password", ["anything"], []),
        ("k8s-short-name", ["a-b"], ["a.b", "A"]),
        ("k8s-long-name", ["a.b"], ["a..b"]),
        ("bsonobjectid", ["5" * 24], ["5"]),
    ],
)
def test_formats(name: str, good: list[str], bad: list[str]) -> None:
    check = string_format(name)
    assert check is not None
    assert [text for text in good if not check(text)] == []
    assert [text for text in bad if check(text)] == []
