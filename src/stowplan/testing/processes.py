"""Child processes of campaigns: started, signalled by their id, read, and gone when the campaign ends."""

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import Final

STOWPLAN: Final = (sys.executable, "-c", "from stowplan.cli.main import main; main()")
"""The command `stowplan` of this installation, to which its arguments are appended."""


def _send(child: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """By its id: `send_signal` looks first if the child has ended, and asyncio then never learns how."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(child.pid, number)


class Process:
    """A child process and the lines it has written to stdout and stderr.

    It has a session to itself, so that Ctrl-C in a terminal reaches the campaign alone, which ends its
    children in order.
    """

    warm_after = 3
    """Rounds after which it has seen everything once, so that its memory should not grow any more."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: list[str] = []
        self.paused = False
        self.expected_codes: set[int] = set()
        """Exit codes that the campaign has asked for: 0 after SIGTERM, -9 after SIGKILL."""
        self._child: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None

    async def spawn(self, *command: str) -> None:
        """Start a program with its arguments. Raises OSError if it cannot be run."""
        self.lines, self.expected_codes, self.paused = [], set(), False
        self._child = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        self._reading = asyncio.create_task(self._read(self._child))

    async def _read(self, child: asyncio.subprocess.Process) -> None:
        """Lines as they come. A line may have any length: `readline` would refuse those above 64 KiB."""
        assert child.stdout is not None
        begun = b""
        while piece := await child.stdout.read(1 << 16):
            *whole, begun = (begun + piece).split(b"\n")
            self.lines += [line.decode(errors="replace") for line in whole]
        if begun:
            self.lines.append(begun.decode(errors="replace"))

    @property
    def code(self) -> int | None:
        """The exit code, None while it runs."""
        return None if self._child is None else self._child.returncode

    def says(self, text: str) -> bool:
        return any(text in line for line in self.lines)

    def signal(self, number: signal.Signals, expected: int | None = None) -> None:
        if self._child is not None and self.code is None:
            _send(self._child, number)
            self.paused = number == signal.SIGSTOP or (self.paused and number != signal.SIGCONT)
            if expected is not None:
                self.expected_codes.add(expected)

    @property
    def pid(self) -> int:
        """The id of the process, 0 if it does not run; another one means that it was started again."""
        return 0 if self._child is None or self.code is not None else self._child.pid

    def resident(self) -> int:
        """Bytes of memory that the process holds, 0 if it does not run."""
        with contextlib.suppress(OSError):
            pages = Path(f"/proc/{self.pid}/statm").read_text().split()[1]
            return int(pages) * os.sysconf("SC_PAGE_SIZE")
        return 0

    async def kill(self) -> None:
        if self._child is None:
            return
        if self.code is None:
            _send(self._child, signal.SIGKILL)
        await self._child.wait()
        if self._reading is not None:
            await self._reading
