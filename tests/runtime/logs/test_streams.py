"""Lines leave the process soon, in order and together, without waiting for a reader."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from stowplan.runtime.logs import LogSettings, Routing, logger_for
from stowplan.runtime.logs.streams import LogStream, to_descriptor
from waiting import PATIENCE

SOON = 60.0
"""Far more than enough."""


class Pipe(NamedTuple):
    reader: int
    writer: int


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe(*os.pipe())
    yield made
    for end in made:
        try:
            os.close(end)
        except OSError:
            assert end == made.reader


class Gate:
    """Something to write to that takes nothing until it is opened."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.written: list[bytes] = []

    def __call__(self, data: bytes) -> None:
        assert self.opened.wait(SOON)
        self.written.append(data)

    @property
    def text(self) -> str:
        return b"".join(self.written).decode()


def test_lines_are_written_soon_without_being_asked_for(pipe: Pipe) -> None:
    stream = LogStream(to_descriptor(pipe.writer))
    stream.put("one\n")
    stream.put("two\n")
    assert os.read(pipe.reader, 100) == b"one\ntwo\n"


def test_lines_said_together_are_written_together() -> None:
    written: list[bytes] = []
    stream = LogStream(written.append)
    for number in range(1000):
        stream.put(f"{number}\n")
    assert stream.flush(SOON)
    assert b"".join(written).decode().split() == [str(number) for number in range(1000)]
    assert len(written) < 20


def test_several_threads_may_speak() -> None:
    written: list[bytes] = []
    stream = LogStream(written.append)

    def speak(name: int) -> None:
        for number in range(500):
            stream.put(f"{name} {number}\n")

    speakers = [threading.Thread(target=speak, args=(name,)) for name in range(4)]
    for speaker in speakers:
        speaker.start()
    for speaker in speakers:
        speaker.join()
    assert stream.flush(SOON)
    lines = b"".join(written).decode().splitlines()
    assert len(lines) == 2000
    for name in range(4):
        assert [line for line in lines if line.startswith(f"{name} ")] == [f"{name} {n}" for n in range(500)]


def test_somebody_who_speaks_may_be_interrupted_by_himself() -> None:
    written: list[bytes] = []
    stream = LogStream(written.append)

    class Interrupted(str):
        def __len__(self) -> int:
            stream.put("in between\n")
            return super().__len__()

    speaker = threading.Thread(target=stream.put, args=(Interrupted("outside\n"),), daemon=True)
    speaker.start()
    speaker.join(SOON)
    assert not speaker.is_alive()
    assert stream.flush(SOON)
    assert b"".join(written).count(b"\n") >= 2


def test_a_stuck_reader_costs_lines_and_they_are_counted() -> None:
    gate = Gate()
    logger = logger_for(LogSettings(), now=lambda: 0.0, stderr=gate)
    text = "x" * 1_000_000
    for _ in range(20):
        logger.info(0, text)
    began = time.monotonic()
    assert not logger.flush(0.01)
    assert time.monotonic() - began < SOON
    gate.opened.set()
    assert logger.flush(SOON)
    logger.info(0, "again")
    logger.close()
    kept = gate.text.count(text)
    assert 3 <= kept <= 6
    told, again = gate.text.splitlines()[-2:]
    assert told[0] == "W"
    assert told.endswith(f'"Log lines were lost" lines={20 - kept}')
    assert again.endswith('"again"')


def test_a_reader_that_is_gone_is_none_of_our_business(pipe: Pipe) -> None:
    stream = LogStream(to_descriptor(pipe.writer))
    os.close(pipe.reader)
    stream.put("one\n")
    assert stream.flush(SOON)
    assert stream.lost == 1
    stream.put("two\n")
    assert stream.flush(SOON)
    assert stream.lost == 2


def test_a_descriptor_that_does_not_block_gets_all_of_it(pipe: Pipe) -> None:
    os.set_blocking(pipe.writer, False)
    stream = LogStream(to_descriptor(pipe.writer))
    text = "y" * 500_000
    stream.put(f"{text}\n")
    read = b""
    while len(read) <= len(text):
        read += os.read(pipe.reader, 65536)
    assert read.decode() == f"{text}\n"


def test_what_is_said_after_the_end_is_still_written() -> None:
    written: list[bytes] = []
    with logger_for(LogSettings(), now=lambda: 0.0, stderr=written.append) as logger:
        logger.info(0, "one")
    assert len(written) == 1
    logger.info(0, "two")
    logger.close()
    assert b'"two"' in written[1]


def test_problems_and_the_rest_go_their_ways_when_streams_are_split() -> None:
    for format, warned in (("text", "errors"), ("json", "info")):
        routing = Routing(split_stream=True)
        found: dict[str, list[bytes]] = {"errors": [], "info": []}
        settings = LogSettings(format=format, text=routing, json=routing)
        with logger_for(
            settings, now=lambda: 0.0, stderr=found["errors"].append, stdout=found["info"].append
        ) as logger:
            logger.info(0, "fine")
            logger.warning("careful")
            logger.error("broken")
        shown = {name: b"".join(parts) for name, parts in found.items()}
        assert b"fine" in shown["info"]
        assert b"broken" in shown["errors"]
        assert b"careful" in shown[warned]
        assert b"".join(shown.values()).count(b"\n") == 3


def test_info_lines_are_held_back_until_there_are_enough_of_them_or_it_is_time() -> None:
    written: list[bytes] = []
    stream = LogStream(written.append, pause=60, held=100)
    stream.put("x" * 60 + "\n")
    time.sleep(0.1)
    assert not written
    stream.put("y" * 60 + "\n")
    deadline = time.monotonic() + SOON
    while not written and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(b"".join(written)) == 122
    short = LogStream(written.append, pause=0.05, held=100)
    short.put("z\n")
    assert short.flush(SOON)
    assert written[-1] == b"z\n"


PROGRAM = """
import sys
from stowplan.runtime.clock import RealClock
from stowplan.runtime.logs import LogSettings, logger_for

done = open(sys.argv[1], "w")
with logger_for(LogSettings(), now=RealClock().now) as logger:
    for number in range(20000):
        logger.info(0, "line", number=number)
done.write("done")
"""


@pytest.mark.parametrize("stderr", ["closed", "gone", "stuck", "full"])
def test_a_process_lives_on_whatever_its_stderr_is(
    stderr: str, pipe: Pipe, tmp_path_factory: pytest.TempPathFactory
) -> None:
    done = tmp_path_factory.mktemp("process") / "done"
    command = [sys.executable, "-c", PROGRAM, str(done)]
    if stderr == "closed":
        shell = ["sh", "-c", 'exec "$@" 2>&-', "sh", *command]
        ended = subprocess.run(shell, timeout=PATIENCE, check=False)
    elif stderr == "full":
        with open("/dev/full", "wb") as full:
            ended = subprocess.run(command, stderr=full, timeout=PATIENCE, check=False)
    else:
        if stderr == "gone":
            os.close(pipe.reader)
        ended = subprocess.run(command, stderr=pipe.writer, timeout=PATIENCE, check=False)
    assert done.read_text() == "done"
    assert ended.returncode == 0
