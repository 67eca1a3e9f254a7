"""Messages as lines: the text that klog writes, and its JSON."""

import os
import time
from collections.abc import Mapping
from json.encoder import encode_basestring
from pathlib import PurePath
from typing import Final, NamedTuple, Protocol

from stowplan.gocompat.quoting import quote
from stowplan.logs.journal import FATAL, PLAIN, PROBLEM, WARNING
from stowplan.logs.quoting import visible
from stowplan.logs.values import as_json, as_text

SEVERITIES: Final = {PROBLEM: "E", WARNING: "W", FATAL: "F"}
_FIRST: Final = ("err", "logger")
_NAME: Final = "logger"
_CAUSE: Final = "err"


class Source(NamedTuple):
    """A file that messages come from: its name, the same with its folder, and the level it is shown up to."""

    file: str
    caller: str
    level: int


def source_of(path: str, level: int) -> Source:
    parts = PurePath(path).parts
    return Source(parts[-1] if parts else "???", "/".join(parts[-2:]), level)


def module_of(path: str) -> str:
    """What `--vmodule` calls a file."""
    return PurePath(path).stem


class Format(Protocol):
    """Makes a line of a message. `named`: the name of the logger is wanted."""

    def line(
        self,
        level: int,
        message: str,
        values: Mapping[str, object],
        source: Source,
        number: int,
        now: float,
        named: bool,
    ) -> str: ...


class TextFormat:
    """`I1116 02:21:03.123456   12345 binding.py:166] "Message" key="value"`, in local time."""

    def __init__(self, pid: int | None = None) -> None:
        self._pid = f"{os.getpid() if pid is None else pid:7}"
        self._second = -1
        self._date = ""

    def line(
        self,
        level: int,
        message: str,
        values: Mapping[str, object],
        source: Source,
        number: int,
        now: float,
        named: bool,
    ) -> str:
        second = int(now)
        if second != self._second:
            self._second = second
            self._date = time.strftime("%m%d %H:%M:%S", time.localtime(second))
        severity = "I" if level >= 0 else SEVERITIES[level]
        micros = int((now - second) * 1e6)
        head = f"{severity}{self._date}.{micros:06} {self._pid} {source.file}:{number}] "
        if values is PLAIN:
            return f"{head}{visible(message)}\n"
        if level < 0 or _NAME in values:
            values = _reordered(values, named or level < 0)
        pairs = [f" {key}={as_text(value)}" for key, value in values.items()]
        return f"{head}{quote(message)}{''.join(pairs)}\n"


class JsonFormat:
    """`{"ts":1763259663123.456,"caller":"scheduler/binding.py:166","msg":"Message","v":2,"key":"value"}`."""

    def line(
        self,
        level: int,
        message: str,
        values: Mapping[str, object],
        source: Source,
        number: int,
        now: float,
        named: bool,
    ) -> str:
        name = values.get(_NAME) if named or level < 0 else None
        logger = "" if name is None else f'"logger":{encode_basestring(str(name))},'
        verbosity = "" if level in (PROBLEM, FATAL) else f',"v":{max(level, 0)}'
        pairs = [
            f",{encode_basestring(key)}:{as_json(value)}"
            for key, value in values.items()
            if key != _NAME and (key != _CAUSE or level >= 0)
        ]
        if level < 0 and _CAUSE in values:
            pairs.append(f',"err":{as_json(values[_CAUSE])}')
        where = encode_basestring(f"{source.caller}:{number}")
        return (
            f'{{"ts":{now * 1000!r},{logger}"caller":{where},"msg":{encode_basestring(message)}'
            f"{verbosity}{''.join(pairs)}}}\n"
        )


def _reordered(values: Mapping[str, object], named: bool) -> Mapping[str, object]:
    """The error first, if that is what a line is about, then who speaks, if that is to be shown."""
    first = {key: values[key] for key in _FIRST if key in values and (key != _NAME or named)}
    rest = {key: value for key, value in values.items() if key not in _FIRST}
    return first | rest
