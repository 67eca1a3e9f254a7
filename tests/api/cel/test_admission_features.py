"""Parts of CEL that policies use: equality across types, syntax errors, made types, authorization checks."""

from typing import Any

import pytest

from stowplan.api.cel import types
from stowplan.api.cel.authorization import AccessQuery, Authorizer, Decision, ResourceCheck
from stowplan.api.cel.checker import Environment
from stowplan.api.cel.compiler import compile_expression
from stowplan.api.cel.cost import CHECK_COST, CostRelease
from stowplan.api.cel.declarations import ESCAPE_KEY, functions
from stowplan.api.cel.program import EvaluationOutcome
from stowplan.api.cel.syntax import CelError
from stowplan.api.cel.types import Type
from stowplan.api.cel.values import EvaluationFailure, LazyMap, Map, Struct

LIMIT = 1_000_000
OPERANDS = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, "
    "IDENTIFIER}"
)
NO_OVERLOAD = "no such overload"
VARIABLES = Type("struct", "kubernetes.variables")
ENVIRONMENT = Environment(
    functions((ESCAPE_KEY,)),
    {
        "a": types.DYN,
        "variables": VARIABLES,
        "authorizer": types.AUTHORIZER,
        "authorizer.requestResource": types.RESOURCE_CHECK,
    },
    {VARIABLES.name: {"first": types.INT, "second": types.INT}},
    {"Made": {"text": types.STRING, "any": types.DYN}}.get,
)


def outcome(text: str, **lazy: Any) -> EvaluationOutcome:
    """Result of an expression; its checks are allowed for the verb `get` only."""

    def authorize(query: AccessQuery) -> Decision:
        asked.append(query)
        return Decision(query.verb == "get", "because")

    asked.clear()
    authorizer = Authorizer(authorize)
    values = {
        "a": Map.of_strings({"text": "x", "number": 1, "nothing": None}),
        "variables": LazyMap(lazy),
        "authorizer": authorizer,
        "authorizer.requestResource": ResourceCheck(
            authorizer, "apps", "deployments", "scale", "prod", "web"
        ),
    }
    return compile_expression(text, ENVIRONMENT, CostRelease()).program.evaluate(values, LIMIT)


asked: list[AccessQuery] = []


def result(text: str, **lazy: Any) -> Any:
    value = outcome(text, **lazy).value
    return value.message if isinstance(value, EvaluationFailure) else value


def problem(text: str) -> list[str]:
    """Issues of an expression that does not compile: place and words."""
    with pytest.raises(CelError) as error:
        compile_expression(text, ENVIRONMENT, CostRelease())
    lines = str(error.value).removeprefix("compilation failed: ").splitlines()
    return [line.removeprefix("ERROR: <input>:") for line in lines if line.startswith("ERROR")]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a.text == 0 ? true : dyn(semver('1.2.3')) == 8", NO_OVERLOAD),
        *(
            (f"dyn({made}) == 8", NO_OVERLOAD)
            for made in ("semver('1.2.3')", "quantity('1')", "url('https://a')", "ip('::1')", "cidr('::/64')")
        ),
        ("8 == dyn(semver('1.2.3'))", False),
        ("'1' == dyn(quantity('1'))", False),
        ("dyn(quantity('1')) != 8", True),
        ("dyn(quantity('1')) == dyn(quantity('1000m'))", True),
        ("dyn(quantity('1')) == a.nothing", False),
        ("a.nothing == dyn(quantity('1'))", False),
        ("a.text == 1", False),
        ("a.number == 1.0 && a.number == 1u", True),
        ("dyn(timestamp('2026-01-01T00:00:00Z')) == 1", False),
        ("dyn(duration('1s')) == '1s'", False),
        ("[dyn(quantity('1'))] == [dyn(1)]", True),
        ("[dyn(1)] == [dyn(quantity('1'))]", False),
        ("dyn(quantity('1')) in [1, 2]", False),
        ("optional.of(dyn(quantity('1'))) == optional.of(dyn(1))", NO_OVERLOAD),
    ],
)
def test_values_of_kubernetes_types_fail_beside_other_types_and_those_of_cel_differ(
    expression: str, expected: Any
) -> None:
    assert result(expression) == expected


def test_types_that_are_known_are_compared_when_the_expression_is_compiled() -> None:
    found = problem("1 == '1'")
    assert found == ["1:3: found no matching overload for '_==_' applied to '(int, string)'"]
    assert "applied to '(kubernetes.Semver, int)'" in problem("semver('1.2.3') == 8")[0]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("(true", ["1:6: Syntax error: missing ')' at '<EOF>'"]),
        ("((true", ["1:7: Syntax error: mismatched input '<EOF>' expecting ')'"]),
        ("size([1]", ["1:9: Syntax error: missing ')' at '<EOF>'"]),
        ("a[0", ["1:4: Syntax error: missing ']' at '<EOF>'"]),
        ("[(1, 2]", ["1:4: Syntax error: missing ')' at ','"]),
        ("(a b)", ["1:4: Syntax error: extraneous input 'b' expecting ')'"]),
        ("(a b c)", ["1:4: Syntax error: mismatched input 'b' expecting ')'"]),
        ("[1", ["1:3: Syntax error: mismatched input '<EOF>' expecting {']', ','}"]),
        ("{1: 2", ["1:6: Syntax error: mismatched input '<EOF>' expecting {'}', ','}"]),
        ("{a}", ["1:3: Syntax error: mismatched input '}' expecting ':'"]),
        ("a ? b", ["1:6: Syntax error: mismatched input '<EOF>' expecting ':'"]),
        (
            "let x = 1",
            [
                "1:1: reserved identifier: let",
                "1:5: Syntax error: mismatched input 'x' expecting <EOF>",
                "1:7: Syntax error: token recognition error at: '= '",
            ],
        ),
        (
            "[1, 2, 3].map(var, var * var)",
            [f"1:{at}: reserved identifier: var" for at in (15, 20, 26)],
        ),
        ("import", ["1:1: reserved identifier: import"]),
        (
            "a | b",
            [
                "1:3: Syntax error: token recognition error at: '| '",
                "1:5: Syntax error: extraneous input 'b' expecting <EOF>",
            ],
        ),
        ("self.true == 1", ["1:6: Syntax error: mismatched input 'true' expecting IDENTIFIER"]),
        ("1 +", [f"1:4: Syntax error: mismatched input '<EOF>' expecting {OPERANDS}"]),
    ],
)
def test_syntax_errors_have_the_words_of_the_generated_parser(expression: str, expected: list[str]) -> None:
    assert problem(expression) == expected


def test_made_values_have_typed_fields() -> None:
    made = result("Made{text: 'x', ?any: optional.none()}")
    assert isinstance(made, Struct)
    assert dict(made.items()) == {"text": "x"}
    assert result("Made{any: [1]} == Made{any: [1]} && Made{any: 1} != Made{any: 2}") is True
    assert outcome("Made{}").cost == 40
    assert problem("Made{text: 1}") == [
        "1:10: expected type of field 'text' is 'string' but provided type is 'int'"
    ]
    assert problem("Made{nope: 1}") == ["1:10: undefined field 'nope'"]
    assert problem("Other{}") == ["1:6: undeclared reference to 'Other' (in container '')"]
    assert result("jsonpatch.escapeKey('example.com/a~b')") == "example.com~1a~0b"


def test_variables_are_worked_out_when_they_are_used_and_once() -> None:
    calls: list[str] = []

    def second() -> int:
        calls.append("second")
        return 2

    assert result("variables.first > 0 || variables.second > 0", first=lambda: 1, second=second) is True
    assert calls == []
    assert result("variables.second + variables.second", second=second) == 4
    assert calls == ["second"]
    assert result("variables.first", first=lambda: EvaluationFailure("broken")) == "broken"


def test_an_authorizer_is_asked_about_the_user_a_service_account_the_request_or_a_path() -> None:
    check = "authorizer.group('apps').resource('deployments').namespace('n').name('x').check('get').allowed()"
    assert result(check) is True
    assert asked == [AccessQuery("get", "apps", "deployments", "", "n", "x")]
    assert result("authorizer.requestResource.check('delete').allowed()") is False
    assert asked == [AccessQuery("delete", "apps", "deployments", "scale", "prod", "web")]
    assert result("authorizer.path('/healthz').check('get').reason()") == "because"
    account = "authorizer.serviceAccount('n', 'builder').group('').resource('pods').subresource('log')"
    assert result(f"{account}.check('get').errored()") is False
    assert asked == [AccessQuery("get", "", "pods", "log", service_account="n/builder")]
    assert result("authorizer.path('  ') == authorizer.path('/')") == "path must not be empty"
    assert result("authorizer.group('').resource('')") == "resource must not be empty"
    assert result("authorizer.serviceAccount('n', '@')") == "Invalid service account name"


def test_two_checks_are_affordable_and_three_are_not() -> None:
    check = "authorizer.requestResource.check('get').allowed()"
    assert outcome(f"{check} && {check}").cost > 2 * CHECK_COST
    assert result(f"{check} && {check} && {check}") == "operation cancelled: actual cost limit exceeded"
