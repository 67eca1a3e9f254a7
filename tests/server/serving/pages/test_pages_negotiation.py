"""In which form z-pages are given."""

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from server.serving.pages.pageports import World, answer_of
from stowplan.server.serving.pages.zpages import ObjectFormat, negotiate

OBJECT = "g=config.k8s.io;as=Statusz"


@pytest.mark.parametrize(
    ("header", "form"),
    [
        ("", ObjectFormat("text/plain")),
        ("  ", ObjectFormat("text/plain")),
        ("*/*", ObjectFormat("text/plain")),
        ("*", ObjectFormat("text/plain")),
        ("text/*", ObjectFormat("text/plain")),
        ("text/html, */*;q=0.8", ObjectFormat("text/plain")),
        (f"application/json;v=v1beta1;{OBJECT}", ObjectFormat("application/json", "v1beta1")),
        (f"application/yaml; v=v1alpha1; {OBJECT}", ObjectFormat("application/yaml", "v1alpha1")),
        (f"application/*;v=v1beta1;{OBJECT}", ObjectFormat("application/json", "v1beta1")),
        (
            f"text/plain;q=0.5, application/yaml;v=v1beta1;{OBJECT}",
            ObjectFormat("application/yaml", "v1beta1"),
        ),
        (f"application/json;v=v1;{OBJECT}, text/plain", ObjectFormat("text/plain")),
        (f"application/json;v=v1;{OBJECT}", None),
        ("application/json", None),
        ("application/json;v=v1beta1;g=config.k8s.io;as=Flagz", None),
        ("application/json;v=v1beta1;as=Statusz", None),
        (f"text/plain;v=v1beta1;{OBJECT}", None),
        (f"application/json;stream=watch;v=v1beta1;{OBJECT}", None),
        ("application/vnd.kubernetes.protobuf", None),
        ("nonsense", None),
        (",;=,", None),
    ],
)
def test_the_form_follows_from_what_is_accepted(header: str, form: ObjectFormat | None) -> None:
    assert negotiate(header, "Statusz") == form


@given(st.text(alphabet="aps*/;,=qv. \t\"'0é", max_size=60))
def test_any_header_gets_a_form_or_none(header: str) -> None:
    form = negotiate(header, "Statusz")
    assert form is None or form.media_type in ("text/plain", "application/json", "application/yaml")


@pytest.mark.parametrize("page", ["Statusz", "Flagz"])
def test_yaml_tells_the_same_as_json(page: str) -> None:
    world = World(flags={"v": "2", "leader-elect": "true"})
    forms = [
        answer_of(world, f"/{page.lower()}", accept=f"{form};v=v1beta1;g=config.k8s.io;as={page}")
        for form in ("application/json", "application/yaml")
    ]
    assert json.loads(forms[0].text) == yaml.safe_load(forms[1].text)
    assert forms[1].headers["Content-Type"] == f"application/yaml;g=config.k8s.io;v=v1beta1;as={page}"


@pytest.mark.parametrize(
    ("query", "agent", "indented"),
    [
        ("", "curl/8.5.0", True),
        ("?pretty=false", "curl/8.5.0", False),
        ("?pretty=1", "x", True),
        ("", "x", False),
    ],
)
def test_people_get_json_with_indentation(query: str, agent: str, indented: bool) -> None:
    accept = f"application/json;v=v1beta1;{OBJECT}"
    answer = answer_of(World(), f"/statusz{query}", accept=accept, headers={"User-Agent": agent})
    assert answer.text.startswith('{\n  "kind"') == indented


def test_what_is_not_offered_is_refused_in_json() -> None:
    answer = answer_of(World(), "/flagz", accept="application/xml")
    assert (answer.code, json.loads(answer.text)["reason"]) == (406, "NotAcceptable")
    assert answer.headers["Content-Type"] == "application/json"


def test_flags_are_in_the_order_of_their_names() -> None:
    world = World(flags={"v": "2", "config": "", "leader-elect": "true"})
    assert answer_of(world, "/flagz").text.endswith("only.\nconfig=\nleader-elect=true\nv=2\n")


def test_pages_list_only_what_there_is() -> None:
    answer = answer_of(World(profiling=False), "/statusz")
    assert answer.text.endswith("\nPaths: /configz /flagz /healthz /livez /metrics /readyz\n")
