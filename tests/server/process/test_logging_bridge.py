"""Messages of libraries are logged, a line each."""

import asyncio
import logging
import warnings

from stowplan.runtime.logs import ERROR, WARNING, Logger
from stowplan.server.process import bridge_logging


def test_an_error_that_nobody_waited_for_becomes_one_line() -> None:
    told: list[tuple[int, str, dict[str, object]]] = []
    logger = Logger(lambda level, message, values: told.append((level, message, dict(values))), 0)

    async def forgotten() -> None:
        raise ValueError("nobody asked")

    async def story() -> None:
        task = asyncio.create_task(forgotten())
        await asyncio.wait({task})
        del task

    with bridge_logging(logger):
        asyncio.run(story())
    assert told == [
        (
            ERROR,
            "Task exception was never retrieved",
            {"logger": "asyncio", "err": "ValueError: nobody asked"},
        )
    ]


def test_a_warning_is_a_warning_and_later_ones_are_left_alone() -> None:
    told: list[tuple[int, str]] = []
    logger = Logger(lambda level, message, values: told.append((level, message)), 0)
    with bridge_logging(logger):
        logging.getLogger("some.library").warning("%d things\nand more", 3)
        logging.getLogger("some.library").info("of no interest")
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("old ways", DeprecationWarning, stacklevel=1)
    logging.getLogger("some.library").warning("too late")
    assert told[0] == (WARNING, "3 things")
    assert [level for level, _ in told] == [WARNING, WARNING]
    assert told[1][1].endswith("DeprecationWarning: old ways")
