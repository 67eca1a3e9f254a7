"""Names and messages are untrusted: no command lets one of them act upon the terminal."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import stowplan.cli
from stowplan.cli.main import stowplan as command
from stowplan.explain.document.pending import Cause, PendingDocument
from stowplan.explain.document.queue import Board, QueueEntry
from stowplan.explain.document.workload import WorkloadChange, WorkloadDocument
from stowplan.explain.layout import Palette, cleaned, middle, safe, table, visible
from stowplan.explain.report import Report, Table, Text
from stowplan.explain.report.terminal import render as render_report
from stowplan.explain.terminal.board import render as render_board
from stowplan.explain.terminal.pending import render_pending
from stowplan.explain.terminal.workload import render_workload
from stowplan.gocompat import quoting
from stowplan.runtime.logs.formats import JsonFormat, TextFormat, source_of

UNSEEN = [
    *"\u202a\u202b\u202c\u202d\u202e",
    *"\u2066\u2067\u2068\u2069",
    *"\u200e\u200f\u061c",
    *"\u200b\u200c\u200d\u2060\ufeff\u00ad\u180e",
    *"\u2028\u2029\x85\x9b\x1b\x07\r\x00\x7f",
    *"\U000e0001\U000e0041\U000e0100\u3164\u034f",
]
PRINTED_BY_GO = set("\U000e0100\u3164\u034f")
"""Letters and marks to Unicode, so klog's quoting lets them through."""
SHOWN = "日本 é e\u0301 🙂 مرحبا"
"""Wide, combining and right-to-left letters are text, not controls."""


def hidden_in(text: str) -> set[str]:
    return set(text) & set(UNSEEN)


@pytest.mark.parametrize("character", UNSEEN, ids=lambda one: f"U+{ord(one):04X}")
def test_a_character_that_is_not_seen_is_printed_as_its_number(character: str) -> None:
    shown = quoting.visible(f"a{character}b")
    assert shown[0] == "a"
    assert shown[1] == "\\"
    assert shown[-1] == "b"
    assert shown.isascii()


@given(st.text())
def test_all_that_is_left_is_printable_and_plain_text_stays(text: str) -> None:
    assert quoting.visible(text).isprintable()
    assert quoting.visible(quoting.visible(text)) == quoting.visible(text)
    assert quoting.visible(SHOWN) == SHOWN


def test_colours_of_the_command_stay_and_those_of_a_name_do_not() -> None:
    name = cleaned("\x1b[31m\u202egnp.exe")
    line = Palette(True).paint(name, "bold")
    assert safe(line, coloured=True) == "\x1b[1m\\x1b[31m\\u202egnp.exe\x1b[0m"
    assert safe("a\x1b[2Jb\nc", coloured=True) == "a\\x1b[2Jb\nc"
    assert "\x1b" not in safe(line)


def hostile(what: str = "x") -> str:
    return what + "".join(UNSEEN) + SHOWN


def reports() -> list[str]:
    text = Report(
        title=hostile(), summary=hostile(), parts=(Text(hostile()), Table(("a",), ((hostile(),),))), data={}
    )
    cause = Cause((hostile(),), 1, hostile(), hostile(), hostile())
    waiting = QueueEntry(pod=hostile(), cause=hostile(), brief=hostile(), since=None)
    board = Board(title=hostile(), source=hostile(), causes=(cause,), oldest=(waiting,))
    workload = WorkloadDocument(
        workload=hostile(),
        kind=hostile(),
        state="waiting",
        source=hostile(),
        headline=hostile(),
        remedy=hostile(),
        changes=(WorkloadChange("quota", hostile(), hostile()),),
        causes=(cause,),
    )
    return [
        "\n".join(render_report(text)),
        "\n".join(render_board(board, None, now=0.0)),
        render_pending(PendingDocument(pods=1, causes=(cause,), source=hostile(), headline=hostile())),
        render_workload(workload),
    ]


@pytest.mark.parametrize("text", reports(), ids=["report", "board", "pending", "workload"])
def test_no_renderer_lets_through_what_is_not_seen(text: str) -> None:
    assert not hidden_in(text)
    assert "\\u202e" in text


def test_log_lines_of_text_escape_values_of_every_kind_and_json_is_exact() -> None:
    values: dict[str, Any] = {
        "a": hostile(),
        "b": {"c": hostile()},
        "d": [hostile()],
        "e": f"two\n{hostile()}",
    }
    where = source_of("x.py", 0)
    line = TextFormat(1).line(0, hostile(), values, where, 1, 0.0, False)
    assert hidden_in(line) <= PRINTED_BY_GO
    exact = json.loads(JsonFormat().line(0, hostile(), values, where, 1, 0.0, False))
    assert exact["msg"] == hostile()
    assert exact["b"] == {"c": hostile()}


def test_an_error_that_quotes_a_hostile_name_is_safe() -> None:
    answer = CliRunner().invoke(command, ["fit", "-f", "a\u202eb\u2066.yaml"])
    assert answer.exit_code != 0
    assert not hidden_in(answer.output)
    assert "\\u202e" in answer.output


def test_wide_and_combining_characters_take_the_columns_they_take() -> None:
    assert (visible("日本"), visible("e\u0301"), visible("\x1b[1mab\x1b[0m")) == (4, 1, 2)
    assert visible(middle("日本語日本語日本語", 9)) <= 9
    lines = table(["name", "n"], [["日本", "1"], ["abcdef", "22"]], numeric=(1,))
    assert len({visible(line) for line in lines}) == 1


EXACT = ("report.json()", "dump_yaml", "migrated.text", "msgspec.json", "written(tally", "\\x1b[K", "safe(")
OWN_TEXT = {
    "bench",
    "chaos.py",
    "fuzz.py",
    "completion.py",
    "man.py",
    "version.py",
    "apiserver.py",
    "output.py",
}


def test_commands_print_text_in_one_way() -> None:
    """Data is printed exactly; all other text of the commands about a cluster goes through `say`."""
    folder = Path(stowplan.cli.__file__).parent
    found = []
    for path in sorted(folder.glob("*.py")):
        if path.name in OWN_TEXT:
            continue
        source = path.read_text("utf-8")
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Attribute) and ast.unparse(node) in ("click.echo", "click.secho"):
                line = source.splitlines()[node.lineno - 1]
                if not any(part in line for part in EXACT):
                    found.append(f"{path.name}:{node.lineno}: {line.strip()}")
    assert not found
