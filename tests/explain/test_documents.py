"""Documents as data: their JSON decodes into the same document, and the published schema is current."""

import types
import typing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.explain.document.part import Part
from stowplan.explain.document.pod import PodDocument
from stowplan.explain.document.schema import DOCUMENTS, json_schema, schema_text
from stowplan.explain.layout import cleaned
from stowplan.explain.web.redaction import redacted

PUBLISHED = Path(__file__).parents[2] / "docs" / "decision-document.schema.json"
ANYTHING = st.dictionaries(st.text(max_size=3), st.integers(0, 9) | st.text(max_size=3), max_size=2)


def values(kind: Any, depth: int) -> st.SearchStrategy[Any]:
    """Values of the type of a field; parts in parts end after some levels."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return st.sampled_from(arguments)
    if origin in (typing.Union, types.UnionType):
        known = [one for one in arguments if not (depth <= 0 and _is_part(one))]
        return st.one_of([values(one, depth) for one in known])
    if origin in (tuple, list):
        empty: st.SearchStrategy[Any] = st.just(())
        found = empty if depth <= 0 else st.lists(values(arguments[0], depth - 1), max_size=2)
        return found.map(tuple) if origin is tuple else found.map(list)
    if origin is not None and issubclass(origin, typing.Mapping):
        if arguments[1] is Any:
            return ANYTHING
        return st.dictionaries(st.text(max_size=4), values(arguments[1], depth - 1), max_size=2)
    if _is_part(kind):
        return documents(kind, depth)
    simple = {
        str: st.text(max_size=8),
        int: st.integers(-(2**40), 2**40),
        float: st.floats(0, 1e6),
        bool: st.booleans(),
        type(None): st.none(),
        msgspec.UnsetType: st.just(msgspec.UNSET),
    }
    return simple[kind]


def _is_part(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Part)


def documents(kind: type[Part], depth: int = 3) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(kind)
    fields = {field.name: values(hints[field.name], depth - 1) for field in msgspec.structs.fields(kind)}
    return st.fixed_dictionaries(fields).map(lambda found: kind(**found))


@pytest.mark.parametrize("kind", DOCUMENTS, ids=lambda kind: kind.__name__)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_json_decodes_into_the_same_document(kind: type[Part], data: st.DataObject) -> None:
    made = data.draw(documents(kind))
    plain = made.document()
    assert msgspec.json.decode(msgspec.json.encode(made), type=kind) == made
    assert msgspec.convert(plain, kind) == made
    assert plain["document"] == kind.__struct_config__.tag
    assert cleaned(cleaned(made)) == cleaned(made)
    assert redacted(made, {"nowhere"}) == made


def test_documents_are_told_apart_by_their_field() -> None:
    tags = [kind.__struct_config__.tag for kind in DOCUMENTS]
    assert len(set(tags)) == len(DOCUMENTS)
    assert msgspec.json.decode(
        b'{"document":"pod","pod":"a/b","state":"gone","source":"x"}', type=PodDocument
    )
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"document":"group","pod":"a/b","state":"gone","source":"x"}', type=PodDocument)


def test_the_published_schema_is_that_of_the_code() -> None:
    assert PUBLISHED.read_text("utf-8") == schema_text(), (
        "run `make schema`, and say in CHANGELOG.md what changed"
    )


def test_every_part_of_the_schema_is_described() -> None:
    schema = json_schema()
    assert len(schema["oneOf"]) == len(DOCUMENTS)
    undescribed = [name for name, part in schema["$defs"].items() if not part["description"]]
    assert not undescribed


def test_a_newer_scheduler_may_say_more() -> None:
    """Fields that a client does not know are ignored."""
    text = b'{"document":"pod","pod":"a/b","state":"gone","source":"x","news":[1]}'
    assert msgspec.json.decode(text, type=PodDocument).pod == "a/b"
