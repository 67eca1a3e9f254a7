"""Log flags, and the lines that they show."""

import pytest

from stowplan.runtime.logs import Logger, LogSettings, Modules, Routing, logger_for, parse_vmodule


def shown(logger: Logger, written: list[bytes]) -> list[int]:
    """The levels that a logger shows of messages from this module."""
    for level in range(8):
        if logger.enabled(level):
            logger.info(level, f"level {level}")
    logger.close()  # type: ignore[attr-defined]
    text = b"".join(written).decode()
    written.clear()
    return [level for level in range(8) if f'"level {level}"' in text]


def test_the_verbosity_can_be_changed_at_any_time() -> None:
    written: list[bytes] = []
    logger = logger_for(LogSettings(verbosity=2), now=lambda: 0.0, stderr=written.append)
    assert shown(logger, written) == [0, 1, 2]
    logger.set_verbosity(5)
    assert logger.verbosity == 5
    assert shown(logger, written) == [0, 1, 2, 3, 4, 5]
    logger.set_verbosity(0)
    assert shown(logger, written) == [0]


@pytest.mark.parametrize(
    ("vmodule", "levels"),
    [
        ("test_settings=4", 4),
        ("test_*=4", 4),
        ("test_settin?s=3", 3),
        ("test_[r-t]ettings=3", 3),
        ("test_[^r-t]ettings=3", 1),
        ("attempt=9", 1),
        ("test_settings=0", 1),
        ("test_settings=4,test_*=6", 4),
        ("settings=6", 1),
        ("[=5", 1),
    ],
)
def test_a_module_may_say_more_than_others(vmodule: str, levels: int) -> None:
    written: list[bytes] = []
    settings = LogSettings(verbosity=1, vmodule=parse_vmodule(vmodule))
    logger = logger_for(settings, now=lambda: 0.0, stderr=written.append)
    assert shown(logger, written) == list(range(levels + 1))
    logger.set_verbosity(7)
    assert shown(logger, written) == list(range(8))


@pytest.mark.parametrize(
    ("pattern", "module", "matches"),
    [
        ("bind*", "binding", True),
        ("bind*", "rebinding", False),
        ("*ing", "binding", True),
        ("b\\*", "b*", True),
        ("b\\*", "bc", False),
        ("a.c", "abc", False),
        ("[a-c]x", "bx", True),
        ("[a", "[a", True),
    ],
)
def test_a_pattern_is_one_for_names_of_files(pattern: str, module: str, matches: bool) -> None:
    assert Modules([(pattern, 5)]).level(module) == (5 if matches else 0)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ()),
        ("a=1", (("a", 1),)),
        ("a=1,,b*=2,", (("a", 1), ("b*", 2))),
        ("a=2147483647", (("a", 2147483647),)),
    ],
)
def test_vmodule_is_read(text: str, found: tuple[tuple[str, int], ...]) -> None:
    assert parse_vmodule(text) == found


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a", '"a" does not have the pattern=N format'),
        ("a=", '"a=" does not have the pattern=N format'),
        ("=1", '"=1" does not have the pattern=N format'),
        ("a=1=2", '"a=1=2" does not have the pattern=N format'),
        ("a=x", '"a=x": expected a number from 0 to 2147483647 after the equal sign'),
        ("a=-1", '"a=-1": expected a number from 0 to 2147483647 after the equal sign'),
        ("a=2147483648", '"a=2147483648": expected a number from 0 to 2147483647 after the equal sign'),
    ],
)
def test_a_bad_vmodule_is_named(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match="=") as caught:
        parse_vmodule(text)
    assert str(caught.value) == complaint


SPLIT = Routing(split_stream=True, info_buffer_size=1024)


@pytest.mark.parametrize(
    ("settings", "problems"),
    [
        (LogSettings(), []),
        (LogSettings(format="json", verbosity=10), []),
        (LogSettings(format="xml"), ['format: Invalid value: "xml": Unsupported log format']),
        (
            LogSettings(format="json", vmodule=(("a", 1),)),
            ["vmodule: Forbidden: Only supported for text log format"],
        ),
        (
            LogSettings(flush_frequency=0),
            ["flushFrequency: Invalid value: expected more than zero seconds"],
        ),
        (
            LogSettings(verbosity=-1),
            ["verbosity: Invalid value: -1: expected a number from 0 to 2147483647"],
        ),
        (
            LogSettings(text=SPLIT),
            [
                "options.text.splitStream: Forbidden: Feature LoggingAlphaOptions is disabled",
                "options.text.infoBufferSize: Forbidden: Feature LoggingAlphaOptions is disabled",
            ],
        ),
        (
            LogSettings(json=Routing(split_stream=True)),
            ["options.json.splitStream: Forbidden: Feature LoggingAlphaOptions is disabled"],
        ),
    ],
)
def test_bad_settings_are_named(settings: LogSettings, problems: list[str]) -> None:
    assert list(settings.problems()) == problems


def test_split_streams_are_there_for_those_who_ask_for_what_is_new() -> None:
    assert list(LogSettings(text=SPLIT, json=SPLIT).problems(alpha=True)) == []


def test_a_journal_nobody_reads_keeps_nothing_but_counts_problems() -> None:
    logger = Logger()
    assert not logger.enabled(1)
    logger.error("broken")
    logger.warning("careful")
    logger.info(0, "fine")
    assert logger.errors == 1
