"""Go's text/template, as far as templates of manifests use it."""

from typing import Any

import pytest

from stowplan.lab.bench.perf.templates import Function, Template, TemplateError

FUNCTIONS: dict[str, Function] = {"Add": lambda one, other: one + other, "Half": lambda value: value // 2}


@pytest.mark.parametrize(
    ("text", "data", "expected"),
    [
        ("plain", {}, "plain"),
        ("a-{{.Index}}", {"Index": 3}, "a-3"),
        ("{{ .deep.er }}", {"deep": {"er": "x"}}, "x"),
        ("{{.missing}}", {}, "<no value>"),
        ("{{Add .a 2}}", {"a": 1}, "3"),
        ("{{.a | Add 2}}", {"a": 1}, "3"),
        ("{{Add (Half .a) 1}}", {"a": 8}, "5"),
        ("{{if .a}}yes{{else}}no{{end}}", {"a": 0}, "no"),
        ("{{if eq .a 2}}two{{else if eq .a 3}}three{{else}}other{{end}}", {"a": 3}, "three"),
        ("{{if eq .a 2}}two{{else if eq .a 3}}three{{else}}other{{end}}", {"a": 4}, "other"),
        ("{{range 3}}<{{.}}>{{end}}", {}, "<0><1><2>"),
        ("{{range $i, $v := .l}}{{$i}}{{$v}} {{end}}", {"l": ["a", "b"]}, "0a 1b "),
        ("{{range .l}}x{{else}}none{{end}}", {"l": []}, "none"),
        ("{{$n := or .n 2}}{{range $k := $n}}{{$k}},{{end}}", {}, "0,1,"),
        ("{{with .a}}{{.b}}{{end}}", {"a": {"b": 1}}, "1"),
        ("a {{- /* said */ -}} b", {}, "ab"),
        ("a {{- .x -}} b", {"x": 1}, "a1b"),
        ('{{print `raw` "\\t" true nil}}', {}, "raw\ttrue<no value>"),
        ("{{.f}} {{.t}}", {"f": 2.0, "t": True}, "2 true"),
        ("{{if and .a (not .b)}}ok{{end}}", {"a": 1, "b": ""}, "ok"),
        ("{{len .l}}{{index .l 1}}", {"l": ["x", "y"]}, "2y"),
        ("{{range .l}}{{$.name}}{{end}}", {"l": [1, 2], "name": "n"}, "nn"),
    ],
)
def test_templates_give_what_go_gives(text: str, data: dict[str, Any], expected: str) -> None:
    assert Template(text, FUNCTIONS).render(data) == expected


@pytest.mark.parametrize(
    ("text", "data", "message"),
    [
        ("{{if .a}}", {}, "unexpected EOF"),
        ("{{end}}", {}, "unexpected {{end}}"),
        ("{{Nope 1}}", {}, 'function "Nope" not defined'),
        ("{{$x}}", {}, 'undefined variable "$x"'),
        ("{{Add 1}}", {}, "error calling Add"),
        ("{{(Add 1 2}}", {}, "unclosed left paren"),
        ("{{.a.b}}", {"a": 1}, "can't evaluate field b"),
        ("{{range .a}}{{end}}", {"a": "text"}, "range can't iterate"),
        ('{{define "x"}}{{end}}', {}, "unexpected {{define}}"),
        ("{{.a ! }}", {}, "unexpected '!'"),
    ],
)
def test_what_cannot_be_rendered_is_refused(text: str, data: dict[str, Any], message: str) -> None:
    with pytest.raises(TemplateError) as refused:
        Template(text, FUNCTIONS).render(data)
    assert message in str(refused.value)


def test_the_fields_that_a_template_uses_are_known() -> None:
    assert Template("{{.a.b}} {{if .c}}{{Add .d 1}}{{end}}", FUNCTIONS).fields == {"a", "c", "d"}
