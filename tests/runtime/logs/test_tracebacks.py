"""Tracebacks in the log: whole where they are short, bounded where they are not."""

import linecache

import pytest

from stowplan.runtime.logs.tracebacks import INNERMOST, LONGEST_CHAIN, OUTERMOST, formatted


def dive() -> None:
    dive()


def caught(error: BaseException) -> BaseException:
    """The error after it was raised here."""
    try:
        raise error
    except type(error) as found:
        return found


def too_deep() -> RecursionError:
    try:
        dive()
    except RecursionError as error:
        return error
    raise AssertionError


def test_a_short_traceback_is_shown_with_its_lines_and_its_cause() -> None:
    error = ValueError("what failed")
    error.__cause__ = caught(KeyError("why"))
    text = formatted(caught(error))
    assert text.startswith("Traceback (most recent call last):\n")
    assert text.count("    raise error\n") == 2
    assert (
        "KeyError: 'why'\n\nThe above exception was the direct cause of the following exception:\n\n" in text
    )
    assert text.endswith("ValueError: what failed")


def test_of_a_deep_recursion_few_frames_are_shown_and_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[int] = []
    getline = linecache.getline

    def counted(file: str, number: int) -> str:
        looked_up.append(number)
        return getline(file, number)

    monkeypatch.setattr(linecache, "getline", counted)
    text = formatted(too_deep())
    assert text.count("  File ") == len(looked_up) == OUTERMOST + INNERMOST
    assert "frames are left out]" in text
    assert text.endswith("RecursionError: maximum recursion depth exceeded")


def test_a_chain_without_end_is_cut() -> None:
    error: BaseException = ValueError("first")
    for number in range(100):
        following = ValueError(f"number {number}")
        following.__context__ = error
        error = following
    text = formatted(error)
    assert text.count("ValueError: ") == LONGEST_CHAIN
    assert text.startswith("(further causes are left out)")
    error.__cause__ = error
    assert formatted(error).count("ValueError: number 99") == LONGEST_CHAIN


def test_a_long_message_is_cut() -> None:
    assert len(formatted(ValueError("x" * 1_000_000))) < 3_000
