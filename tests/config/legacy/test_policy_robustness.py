"""Every error in a file is reported in one line."""

import copy
import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from config.legacy.documents import SAMPLES, policy
from effort import examples
from stowplan.config import ConfigError
from stowplan.config.legacy import load_any
from stowplan.config.upgrade import migrate

FULL = {
    **json.loads(policy(alwaysCheckAllPredicates=True)),
    **yaml.safe_load((SAMPLES / "regions.yaml").read_text()),
    "extenders": json.loads((SAMPLES / "scheduler-policy-config-with-extender.json").read_text())[
        "extenders"
    ],
}
DOCUMENTS = [FULL, *(yaml.safe_load(file.read_text()) for file in sorted(SAMPLES.iterdir()))]

junk = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-1, 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "x", "*", "HostName", "1s"]),
    st.just([]),
    st.just({}),
    st.just([None]),
    st.just([{}]),
    st.just({"name": "x"}),
    st.just(["x", "x"]),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document."""
    found = [path] if path else []
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in pairs:
        found += places(item, (*path, key))
    return found


def spoiled(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    made = copy.deepcopy(document)
    *way, last = path
    at = made
    for key in way:
        at = at[key]
    at[last] = value
    return made


@settings(max_examples=examples(150))
@given(data=st.data(), value=junk)
def test_a_spoiled_file_is_read_or_refused_in_one_line(data: st.DataObject, value: Any) -> None:
    document = data.draw(st.sampled_from(DOCUMENTS))
    text = json.dumps(spoiled(document, data.draw(st.sampled_from(places(document))), value))
    told = complaint(text)
    assert "\n" not in told
    if not told:
        assert not complaint(migrate(text.encode()).text)


@pytest.mark.parametrize("text", ["", "kind: Policy", "kind: [", "\x00", f"{policy()} x"])
def test_text_that_is_nothing_is_refused(text: str) -> None:
    assert complaint(text)


def complaint(text: str) -> str:
    """Error message for a text; empty if it is valid."""
    try:
        assert load_any(text).config.profiles
    except ConfigError as error:
        return str(error) or "nothing is said"
    return ""
