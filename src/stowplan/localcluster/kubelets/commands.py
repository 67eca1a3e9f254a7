"""Commands that say how long a container runs and how it exits: `sleep 60`, `sh -c 'echo hi; exit 3'`.

Tests and examples use such containers in place of real work. Of a shell script only plain steps are followed:
one with a condition, a loop or a program that does something is not.
"""

import re
import shlex
from collections.abc import Sequence
from typing import Final, NamedTuple

from stowplan.api.requests import Json
from stowplan.localcluster.objects.fields import spec_of

FOR_EVER: Final = 1e9
_SHELLS: Final = ("sh", "bash", "ash", "dash")
_INSTANT: Final = ("echo", "printf", "date", "set", "touch", "mkdir", "cat", "ls", "env", "hostname", ":")
"""Programs that end at once with exit code 0, as far as a script is concerned."""
_UNITS: Final = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)")
_STEPS: Final = re.compile(r"[;\n]|&&")
_UNCLEAR: Final = re.compile(r"[$`|<(){}\[\]&]")
"""Characters of a script that does more than one step after the other."""


class Run(NamedTuple):
    """Run of a container: its duration in seconds and its exit code."""

    seconds: float
    exit_code: int


def run_of(pod: Json) -> Run | None:
    """The run of a pod's first container by its command; None if that does not say."""
    containers = spec_of(pod).get("containers") or ()
    if not containers:
        return None
    first = containers[0]
    words = [*(first.get("command") or ()), *(first.get("args") or ())]
    if words:
        return _run(words)
    image = str(first.get("image") or "").partition("@")[0].rpartition("/")[2].partition(":")[0]
    return Run(FOR_EVER, 0) if image == "pause" else None


def _run(words: Sequence[str]) -> Run | None:
    program = words[0].rpartition("/")[2]
    if program in _SHELLS:
        options, script = words[1:-1], words[-1]
        is_script = bool(options) and options[-1].startswith("-") and options[-1].endswith("c")
        return _script(script) if is_script else None
    return _step(program, words[1:])


def _step(program: str, arguments: Sequence[str]) -> Run | None:
    if program == "pause":
        return Run(FOR_EVER, 0)
    if program in ("true", "false"):
        return Run(0.0, int(program == "false"))
    if program == "exit":
        code = arguments[0] if arguments else "0"
        return Run(0.0, int(code) % 256) if code.isascii() and code.isdigit() and len(code) < 5 else None
    if program == "sleep":
        return _sleep(arguments)
    return Run(0.0, 0) if program in _INSTANT else None


def _sleep(arguments: Sequence[str]) -> Run | None:
    total = 0.0
    for argument in arguments:
        if argument in ("inf", "infinity"):
            return Run(FOR_EVER, 0)
        found = _DURATION.fullmatch(argument)
        if found is None:
            return None
        total += float(found[1]) * _UNITS[found[2]]
    return Run(min(total, FOR_EVER), 0) if arguments else None


def _script(script: str) -> Run | None:
    """The steps of a script, up to one that exits or fails."""
    if _UNCLEAR.search(script.replace("&&", ";")):
        return None
    total, code = 0.0, 0
    for text in _STEPS.split(script):
        try:
            words = shlex.split(text, comments=True)
        except ValueError:
            return None
        if not words:
            continue
        run = _step(words[0].rpartition("/")[2], words[1:])
        if run is None:
            return None
        total, code = total + run.seconds, run.exit_code
        if words[0] == "exit":
            break
    return Run(min(total, FOR_EVER), code)
