"""Node selectors and node affinity: terms ORed, demands ANDed, errors only where they matter."""

import msgspec
import pytest

from stowplan.api.labels import SelectorError
from stowplan.api.pod import NodeSelector, PodSpec, PreferredSchedulingTerm
from stowplan.api.rules.nodeselector import (
    CompiledNodeSelector,
    FieldRequirement,
    compile_node_selector,
    compile_preferred,
    required_node_affinity,
)

NODE = ("n1", {"zone": "a", "cores": "16"})


def requirement(key: str, operator: str, *values: str) -> dict[str, object]:
    return {"key": key, "operator": operator, "values": values}


def labelled(*requirements: dict[str, object]) -> dict[str, object]:
    return {"matchExpressions": requirements}


def named(operator: str, *names: str, key: str = "metadata.name") -> dict[str, object]:
    return {"matchFields": [requirement(key, operator, *names)]}


def selector(*terms: dict[str, object]) -> CompiledNodeSelector:
    return compile_node_selector(msgspec.convert({"nodeSelectorTerms": terms}, NodeSelector))


IN_A, IN_B = labelled(requirement("zone", "In", "a")), labelled(requirement("zone", "In", "b"))
BROKEN = labelled(requirement("cores", "Gt", "many"))


@pytest.mark.parametrize(
    ("terms", "matches"),
    [
        ([], False),
        ([{}], False),
        ([IN_A], True),
        ([IN_B], False),
        ([IN_B, IN_A], True),
        ([{}, IN_A], True),
        ([labelled(requirement("cores", "Gt", "8"), requirement("cores", "Lt", "32"))], True),
        ([labelled(requirement("zone", "In", "a"), requirement("cores", "Gt", "16"))], False),
        ([labelled(requirement("gpu", "NotIn", "x"))], True),
        ([labelled(requirement("gpu", "DoesNotExist"))], True),
        ([labelled(requirement("zone", "Gt", "1"))], False),
        ([named("In", "n1")], True),
        ([named("NotIn", "n1")], False),
        ([IN_A | named("In", "n2")], False),
        ([named("In", "n1", key="metadata.uid")], False),
        ([named("NotIn", "n1", key="metadata.uid")], True),
        ([BROKEN], False),
        ([BROKEN, IN_A], True),
    ],
)
def test_a_node_matches_if_any_term_matches_in_all_its_demands(
    terms: list[dict[str, object]], matches: bool
) -> None:
    name, labels = NODE
    assert selector(*terms).matches(labels, name) is matches


def test_a_node_without_a_name_is_not_asked_for_its_fields() -> None:
    assert selector(named("In", "n1")).matches({}, "")


def test_errors_matter_only_where_no_term_matches() -> None:
    name, labels = NODE
    mixed = selector(BROKEN, IN_A)
    assert mixed.error_for(labels, name) is None
    assert mixed.error_for({"zone": "b"}, name) == mixed.parse_error
    assert mixed.parse_error == (
        'nodeSelectorTerms[0].matchExpressions[0].values[0]: Invalid value: "many": '
        "for 'Gt', 'Lt' operators, the value must be an integer"
    )


@pytest.mark.parametrize(
    ("term", "problem"),
    [
        (
            labelled(requirement("zone", "Near", "a")),
            'nodeSelectorTerms[0].matchExpressions[0].operator: Unsupported value: "Near": supported values: '
            '"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"',
        ),
        (
            named("Exists"),
            'nodeSelectorTerms[0].matchFields[0].operator: Unsupported value: "Exists": supported values: '
            '"In", "NotIn"',
        ),
        (
            named("In", "n1", "n2"),
            'nodeSelectorTerms[0].matchFields[0].values: Invalid value: ["n1","n2"]: must have one element',
        ),
    ],
)
def test_a_term_that_cannot_be_read_says_where_and_why(term: dict[str, object], problem: str) -> None:
    [compiled] = selector(term).terms
    assert compiled.error == problem
    assert not compiled.is_empty


def test_compiled_terms_show_their_demands_and_can_be_looked_up() -> None:
    [term] = selector(labelled(requirement("zone", "In", "b", "a")) | named("NotIn", "n9")).terms
    [expression] = term.expressions
    assert (expression.key, expression.operator, expression.values) == ("zone", "In", ("a", "b"))
    assert [expression.matches_value(value) for value in ("a", "c", None)] == [True, False, False]
    assert term.fields == (FieldRequirement("metadata.name", "NotIn", "n9"),)
    again = selector(labelled(requirement("zone", "In", "a", "b")) | named("NotIn", "n9")).terms[0]
    assert {term: 1}[again] == 1


def spec(node_selector: dict[str, str] | None, *terms: dict[str, object]) -> PodSpec:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    affinity = {"nodeAffinity": required} if terms else None
    return msgspec.convert({"nodeSelector": node_selector, "affinity": affinity}, PodSpec)


@pytest.mark.parametrize(
    ("pod", "matches"),
    [
        (spec(None), True),
        (spec({"zone": "a"}), True),
        (spec({"zone": "b"}), False),
        (spec({"zone": "a"}, IN_A), True),
        (spec({"zone": "a"}, IN_B), False),
        (spec({"zone": "b"}, IN_A), False),
        (spec(None, {}), False),
    ],
)
def test_a_pod_demands_both_its_node_selector_and_its_required_affinity(pod: PodSpec, matches: bool) -> None:
    name, labels = NODE
    assert required_node_affinity(pod).matches(labels, name) is matches


def test_an_unreadable_affinity_goes_unnoticed_where_the_node_selector_says_no_already() -> None:
    affinity = required_node_affinity(spec({"zone": "a"}, BROKEN))
    assert affinity.error_for({"zone": "b"}, "n1") is None
    assert affinity.error_for({"zone": "a"}, "n1") is not None


def preferred(*weighted: tuple[int, dict[str, object]]) -> list[PreferredSchedulingTerm]:
    terms = [{"weight": weight, "preference": term} for weight, term in weighted]
    return msgspec.convert(terms, list[PreferredSchedulingTerm])


def test_preferences_score_the_weights_of_the_terms_that_match() -> None:
    name, labels = NODE
    terms = compile_preferred(preferred((5, IN_A), (7, named("In", "n1")), (11, IN_B), (13, {})))
    assert terms.score(labels, name) == 12
    assert [weight for weight, _ in terms.terms] == [5, 7, 11]


def test_one_unreadable_preference_spoils_them_all_unless_it_has_no_weight() -> None:
    with pytest.raises(SelectorError, match=r"^\[1\]\.matchExpressions\[0\]\.values\[0\]: Invalid value"):
        compile_preferred(preferred((5, IN_A), (1, BROKEN)))
    assert compile_preferred(preferred((5, IN_A), (0, BROKEN))).score(NODE[1], NODE[0]) == 5
