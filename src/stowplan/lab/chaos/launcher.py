"""Runs `stowplan` with a wall clock that can be set from outside, for the process campaign.

Run as a script: `python launcher.py OFFSET_FILE run …`. The file holds a double, the seconds by which this
process's `time.time()` is ahead of the machine; writing to it steps the clock. Nothing of stowplan is
imported before the clock is in place, and stowplan knows nothing of it.
"""

import mmap
import struct
import sys
import time
from importlib import import_module
from pathlib import Path


def _step_clock_by(path: Path) -> None:
    with path.open("r+b") as file:
        shared = mmap.mmap(file.fileno(), struct.calcsize("d"))
    machine, machine_ns, read = time.time, time.time_ns, struct.Struct("d").unpack_from
    time.time = lambda: machine() + read(shared)[0]
    time.time_ns = lambda: machine_ns() + int(read(shared)[0] * 1e9)


def _main() -> None:
    sys.path.pop(0)
    _step_clock_by(Path(sys.argv.pop(1)))
    import_module("stowplan.cli.main").main()


if __name__ == "__main__":
    _main()
