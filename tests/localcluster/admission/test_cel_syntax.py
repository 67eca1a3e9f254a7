"""CEL expressions in objects: the syntax is checked, and that a condition is one."""

import pytest

from stowplan.localcluster.admission.validation.controlplane import expression_problem

FAILED = "compilation failed: ERROR: <input>:"
OPERANDS = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, "
    "IDENTIFIER}"
)


@pytest.mark.parametrize(
    "expression",
    [
        "true",
        'device.driver == "gpu.example.com"',
        "device.attributes['gpu.example.com'].model in ['a', 'b']",
        "object.spec.replicas <= 5 && !has(object.spec.paused)",
        "object.spec.containers.all(c, c.image.startsWith('registry.example/')) || size(object.spec.x) > 0u",
        "object.?metadata.?labels[?'a'].orValue('') != ''",
        "x ? y : z ? a : b",
        "-1 < .5e3 + 0x1F * (2 - 3) % 4",
        "{'a': 1, \"b\": [1, 2,],}.a == b'raw' + r'\\d' // a comment",
        "Object{metadata: Object.metadata{labels: {'a': 'b'}}} == dyn(1)",
        "type(x) == google.protobuf.Timestamp && .top.level(1)",
        "x.name == '''several\nlines'''",
        "params",
    ],
)
def test_what_is_right_is_accepted(expression: str) -> None:
    assert expression_problem(expression) == ""


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("1", "must evaluate to bool or the unknown type, not int"),
        ("'a' + 'b'", "must evaluate to bool or the unknown type, not string"),
        (
            "device.nope ===",
            "compilation failed: ERROR: <input>:1:15: Syntax error: token recognition error at: '='\n"
            " | device.nope ===\n | ..............^\n"
            f"ERROR: <input>:1:16: Syntax error: mismatched input '<EOF>' expecting {OPERANDS}\n"
            " | device.nope ===\n | ...............^",
        ),
        (
            "(a",
            "compilation failed: ERROR: <input>:1:3: Syntax error: missing ')' at '<EOF>'",
        ),
        ("a b", "compilation failed: ERROR: <input>:1:3: Syntax error: extraneous input 'b' expecting <EOF>"),
        (
            "a &&\n",
            f"{FAILED}2:1: Syntax error: mismatched input '<EOF>' expecting {OPERANDS}",
        ),
        (
            "",
            f"{FAILED}1:0: Syntax error: mismatched input '<EOF>' expecting {OPERANDS}",
        ),
        (
            "(" * 300,
            "compilation failed: ERROR: <input>:-1:0: expression recursion limit exceeded: 250",
        ),
        ("x.`odd-name` == 1", f"{FAILED}1:3: unsupported syntax: '`'\n | x.`odd-name` == 1\n | ..^"),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(expression: str, problem: str) -> None:
    assert expression_problem(expression).startswith(problem)


def test_an_expression_that_is_no_condition_may_be_anything() -> None:
    assert expression_problem("1 + 2", boolean=False) == ""
