"""Rendering of messages: klog's text, and its JSON."""

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.logs.reading import entries
from stowplan.api.meta import ObjectMeta
from stowplan.api.pod import Pod
from stowplan.gocompat.quoting import quote
from stowplan.runtime.logs import FATAL, LogSettings, ProcessLogger, Ref, logger_for

NOW = 1794771556.854547


class Kept:
    """A logger and what was written of it."""

    def __init__(self, format: str = "text", verbosity: int = 0, **settings: Any) -> None:
        self._written: list[bytes] = []
        self.logger: ProcessLogger = logger_for(
            LogSettings(format=format, verbosity=verbosity, **settings),
            now=lambda: NOW,
            stderr=self._written.append,
            pid=4321,
        )

    def text(self) -> str:
        self.logger.close()
        return b"".join(self._written).decode()


@dataclass
class Point:
    x: int
    y: str


class Colour(StrEnum):
    RED = "red"


class Mute:
    def __str__(self) -> str:
        raise RuntimeError("no")


POD = Pod(metadata=ObjectMeta(name="p", namespace="ns"))

VALUES = [
    ("a word", '"a word"', '"a word"'),
    ("", '""', '""'),
    ('say "hi" \\', r'"say \"hi\" \\"', r'"say \"hi\" \\"'),
    (":\0:z1", r'":\x00:z1"', r'":\u0000:z1"'),
    ("tab\tbell\a", r'"tab\tbell\a"', r'"tab\tbell\u0007"'),
    ("Zürich 🦆", '"Zürich 🦆"', '"Zürich 🦆"'),
    ("nbsp\u00a0sep\u2028", r'"nbsp\u00a0sep\u2028"', '"nbsp\u00a0sep\u2028"'),
    ("half \udcff \ud800", r'"half \xff \ud800"', r'"half \udcff \ud800"'),
    ("one\ntwo", "<\n\tone\n\ttwo\n >", r'"one\ntwo"'),
    ("one\ntwo\n", "<\n\tone\n\ttwo\n >", r'"one\ntwo\n"'),
    ("a\n\n\tb\r\x1b[1m", "<\n\ta\n\t\n\t\tb\\r\\x1b[1m\n >", r'"a\n\n\tb\r\u001b[1m"'),
    (Ref("ns/name"), '"ns/name"', '{"name":"name","namespace":"ns"}'),
    (Ref("node-1"), '"node-1"', '{"name":"node-1"}'),
    (POD, '"ns/p"', '{"name":"p","namespace":"ns"}'),
    (Colour.RED, '"red"', '"red"'),
    (7, "7", "7"),
    (-1, "-1", "-1"),
    (True, "true", "true"),
    (None, "null", "null"),
    (0.25, "0.25", "0.25"),
    (2.0, "2", "2"),
    (np.int64(3), "3", "3"),
    (np.float64(1.5), "1.5", "1.5"),
    (float("nan"), '"\\u003cinternal error: ValueError\\u003e"', '"<internal error: ValueError>"'),
    (ValueError("no such pod"), '"no such pod"', '"no such pod"'),
    (b"raw \xc3\xbc\xff", r'"raw \u00fc\xff"', '"raw ü\\\\xff"'),
    (["a", 1, None], '["a",1,null]', '["a",1,null]'),
    (("a", True), '["a",true]', '["a",true]'),
    ({"b": {}, "a": [1]}, '{"b":{},"a":[1]}', '{"b":{},"a":[1]}'),
    ({"b", "a"}, '["a","b"]', '["a","b"]'),
    (["<&>"], r'["\u003c\u0026\u003e"]', '["<&>"]'),
    (["two\nlines"], r'["two\nlines"]', r'["two\nlines"]'),
    (Point(1, "a"), '{"x":1,"y":"a"}', '{"x":1,"y":"a"}'),
    ([ValueError("inside")], '["inside"]', '["inside"]'),
    (Mute(), '"<Mute that cannot be shown: RuntimeError>"', '"<Mute that cannot be shown: RuntimeError>"'),
]


@pytest.mark.parametrize(("value", "text", "as_json"), VALUES, ids=[ascii(one[2])[:30] for one in VALUES])
def test_a_value_has_its_form(value: object, text: str, as_json: str) -> None:
    kept = Kept()
    kept.logger.info(0, "Message", key=value)
    assert kept.text().partition('] "Message" key=')[2] == text + "\n"
    kept = Kept("json")
    kept.logger.info(0, "Message", key=value)
    assert kept.text().partition('"v":0,"key":')[2] == as_json + "}\n"


def test_a_line_of_text_has_severity_date_time_pid_file_and_line() -> None:
    kept = Kept()
    kept.logger.info(0, "Message")
    kept.logger.warning("Careful", why="because")
    kept.logger.error("Failed", pod=Ref("a/b"), logger="UnhandledError", err="broken")
    kept.logger.fatal("Over")
    kept.logger.plain(0, "Serving securely on 127.0.0.1:1")
    shown = [re.sub(r":\d+\] ", ":1] ", line) for line in kept.text().splitlines()]
    heads = [re.sub(r"\d\d:\d\d:\d\d", "HH:MM:SS", line[1:]) for line in shown]
    assert [line[0] for line in shown] == ["I", "W", "E", "F", "I"]
    assert [re.sub(r"^\d{4}", "MMDD", head) for head in heads] == [
        'MMDD HH:MM:SS.854547    4321 test_rendering.py:1] "Message"',
        'MMDD HH:MM:SS.854547    4321 test_rendering.py:1] "Careful" why="because"',
        'MMDD HH:MM:SS.854547    4321 test_rendering.py:1] "Failed" err="broken" logger="UnhandledError" '
        'pod="a/b"',
        'MMDD HH:MM:SS.854547    4321 test_rendering.py:1] "Over"',
        "MMDD HH:MM:SS.854547    4321 test_rendering.py:1] Serving securely on 127.0.0.1:1",
    ]


def test_a_line_of_json_has_its_keys_in_order() -> None:
    kept = Kept("json", verbosity=4)
    kept.logger.info(2, "Message", pod=Ref("a/b"), err="x", logger="Bind.DefaultBinder")
    kept.logger.error("Failed", err=ValueError("broken"), pod=Ref("a/b"), logger="UnhandledError")
    kept.logger.warning("Careful", why=1)
    kept.logger.plain(1, 'FLAG: --v="2"')
    lines = [re.sub(r"\.py:\d+", ".py:1", line) for line in kept.text().splitlines()]
    assert lines == [
        '{"ts":1794771556854.547,"logger":"Bind.DefaultBinder","caller":"logs/test_rendering.py:1",'
        '"msg":"Message","v":2,"pod":{"name":"b","namespace":"a"},"err":"x"}',
        '{"ts":1794771556854.547,"logger":"UnhandledError","caller":"logs/test_rendering.py:1",'
        '"msg":"Failed","pod":{"name":"b","namespace":"a"},"err":"broken"}',
        '{"ts":1794771556854.547,"caller":"logs/test_rendering.py:1","msg":"Careful","v":0,"why":1}',
        '{"ts":1794771556854.547,"caller":"logs/test_rendering.py:1","msg":"FLAG: --v=\\"2\\"","v":1}',
    ]


@pytest.mark.parametrize("format", ["text", "json"])
def test_the_name_of_a_logger_is_shown_to_those_who_want_detail(format: str) -> None:
    for verbosity, count in ((2, 0), (4, 1)):
        kept = Kept(format, verbosity)
        kept.logger.info(2, "Message", logger="PostFilter.DefaultPreemption")
        assert kept.text().count("PostFilter.DefaultPreemption") == count


def test_a_message_is_quoted_and_plain_text_is_not() -> None:
    kept = Kept()
    kept.logger.info(0, 'a "b"\nc')
    kept.logger.plain(FATAL, 'a "b"\x1b')
    first, second = kept.text().splitlines()
    assert first.endswith(r'] "a \"b\"\nc"')
    assert second[0] == "F"
    assert second.endswith(r'] a "b"\x1b')


texts = st.text(st.characters())
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts | st.binary() | st.builds(Ref, texts),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(texts | st.integers(), inner)
        | st.frozensets(texts)
        | st.builds(ValueError, inner)
        | st.tuples(inner, inner)
    ),
    max_leaves=5,
)


@given(st.lists(anything, max_size=3), texts)
def test_any_value_gives_one_entry_of_text(values: list[object], message: str) -> None:
    kept = Kept()
    kept.logger.info(0, message, **{f"key{at}": value for at, value in enumerate(values)})
    [line] = entries(kept.text())
    assert line.keys == tuple(f"key{at}" for at in range(len(values)))


@given(anything, texts)
def test_any_value_gives_one_line_of_json(value: object, message: str) -> None:
    kept = Kept("json")
    kept.logger.info(0, message, key=value)
    written = kept.text()
    assert written.index("\n") == len(written) - 1
    read = json.loads(written)
    assert list(read) == ["ts", "caller", "msg", "v", "key"]
    assert _paired(read["msg"]) == _paired(message)
    if type(value) is str:
        assert _paired(read["key"]) == _paired(value)


def _paired(text: str) -> bytes:
    """A string by its UTF-16: two halves of a surrogate pair are one character once they have been JSON."""
    return text.encode("utf-16", "surrogatepass")


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_what_is_quoted_can_be_read_back(text: str) -> None:
    quoted = quote(text)
    assert quoted.isprintable()
    assert json.loads(re.sub(r"\\(\\|[abfv]|x..|U.{8})", _as_json, quoted)) == text


def _as_json(found: re.Match[str]) -> str:
    """An escape of Go that JSON does not know, as JSON would have it."""
    name = found[1]
    if name == "\\":
        return found[0]
    number = {"a": 7, "b": 8, "f": 12, "v": 11}.get(name)
    one = chr(int(name[1:], 16) if number is None else number)
    return json.dumps(one)[1:-1]
