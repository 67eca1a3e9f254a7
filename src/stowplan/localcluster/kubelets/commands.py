"""Commands that say how long a container runs and how it exits: `sleep 60`, `sh -c 'echo hi; exit 3'`.

Tests and examples use such containers in place of real work. Of shell scripts only those are followed that
take one step after the other, with conditions on numbers such as the completion index; loops, pipes and
programs that do something are not.
"""

import operator
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from stowplan.api.requests import Json
from stowplan.localcluster.objects.fields import name_of, spec_of

FOR_EVER: Final = 1e9
_SHELLS: Final = ("sh", "bash", "ash", "dash")
_INSTANT: Final = ("echo", "printf", "date", "set", "touch", "mkdir", "cat", "ls", "env", "hostname", ":")
"""Programs that end at once with exit code 0, as far as a script is concerned."""
_UNITS: Final = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)")
_VARIABLE: Final = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_EXPR: Final = re.compile(r"\$\(\s*expr\s+(-?\d+)\s+([-+%])\s+(-?\d+)\s*\)")
_UNCLEAR: Final = re.compile(r"[$`|<>(){}]")
"""Characters of a script that does more than is followed here."""
_END: Final = ";"
_COMPARED: Final[Mapping[str, Callable[[int, int], bool]]] = {
    "-eq": operator.eq,
    "-ne": operator.ne,
    "-lt": operator.lt,
    "-le": operator.le,
    "-gt": operator.gt,
    "-ge": operator.ge,
}
_FIELDS: Final = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


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
        return _run(words, _variables(pod, first))
    image = str(first.get("image") or "").partition("@")[0].rpartition("/")[2].partition(":")[0]
    return Run(FOR_EVER, 0) if image == "pause" else None


def _variables(pod: Json, container: Json) -> dict[str, str]:
    """The environment of a container as far as its pod says it."""
    found: dict[str, str] = {}
    for one in container.get("env") or ():
        path = ((one.get("valueFrom") or {}).get("fieldRef") or {}).get("fieldPath", "")
        place = _FIELDS.fullmatch(path)
        if "valueFrom" not in one:
            found[one["name"]] = one.get("value") or ""
        elif path == "metadata.name":
            found[one["name"]] = name_of(pod)
        elif place is not None:
            found[one["name"]] = (pod["metadata"].get(place[1]) or {}).get(place[2], "")
    return found


def _run(words: Sequence[str], variables: Mapping[str, str]) -> Run | None:
    program = words[0].rpartition("/")[2]
    if program in _SHELLS:
        options, script = words[1:-1], words[-1]
        is_script = bool(options) and options[-1].startswith("-") and options[-1].endswith("c")
        return _script(script, variables) if is_script else None
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


class _UnclearError(Exception):
    """A script that does something which is not followed here."""


def _script(script: str, variables: Mapping[str, str]) -> Run | None:
    """The run of a shell script; None if it is not clear."""
    try:
        parser = _Parser(_tokens(_expanded(script, variables)))
        parser.follow((), live=True)
    except (_UnclearError, ValueError):
        return None
    return Run(min(parser.seconds, FOR_EVER), parser.exit_code)


def _expanded(script: str, variables: Mapping[str, str]) -> str:
    """The script with values for its variables, and for what it computes of them with `expr`."""

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        if name not in variables:
            raise _UnclearError
        return variables[name]

    text = _EXPR.sub(_computed, _VARIABLE.sub(value, script))
    if _UNCLEAR.search(text):
        raise _UnclearError
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))


def _computed(found: re.Match[str]) -> str:
    first, sign, second = int(found[1]), found[2], int(found[3])
    if sign == "%" and second > 0:
        return str(first % second)
    if sign in "+-":
        return str(first + second if sign == "+" else first - second)
    raise _UnclearError


def _tokens(text: str) -> list[str]:
    """Words, and `;` for everything that separates steps."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";&\n")
    lexer.whitespace, lexer.commenters, lexer.whitespace_split = " \t\r", "", True
    found: list[str] = []
    for token in lexer:
        if token.strip(";\n") in ("", "&&") and token:
            found.append(_END)
        elif set(token) <= set(";&\n"):
            raise _UnclearError
        else:
            found.append(token)
    return found


class _Parser:
    """Follows the steps of a script, and of the branches of its conditions those that are taken."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self._tokens = list(tokens)
        self._place = 0
        self.seconds = 0.0
        self.exit_code = 0
        self.is_over = False

    def follow(self, ends: Sequence[str], *, live: bool) -> None:
        """Follow steps up to one of some words, which is left; if not `live`, only read them."""
        while self._place < len(self._tokens):
            word = self._tokens[self._place]
            if word in ends:
                return
            if word == _END:
                self._place += 1
            elif word == "if":
                self._place += 1
                self._branch(live=live)
            else:
                self._take(self._words(), live=live)
        if ends:
            raise _UnclearError

    def _words(self) -> list[str]:
        """The words up to the end of a step."""
        begin = self._place
        while self._place < len(self._tokens) and self._tokens[self._place] != _END:
            self._place += 1
        return self._tokens[begin : self._place]

    def _branch(self, *, live: bool) -> None:
        holds = _holds(self._words())
        self._expect("then")
        self.follow(("else", "fi"), live=live and holds)
        if self._tokens[self._place] == "else":
            self._place += 1
            self.follow(("fi",), live=live and not holds)
        self._expect("fi")

    def _expect(self, word: str) -> None:
        while self._place < len(self._tokens) and self._tokens[self._place] == _END:
            self._place += 1
        if self._place >= len(self._tokens) or self._tokens[self._place] != word:
            raise _UnclearError
        self._place += 1

    def _take(self, words: Sequence[str], *, live: bool) -> None:
        run = _step(words[0].rpartition("/")[2], words[1:])
        if run is None:
            raise _UnclearError
        if live and not self.is_over:
            self.seconds, self.exit_code = self.seconds + run.seconds, run.exit_code
            self.is_over = words[0] == "exit"


def _holds(words: Sequence[str]) -> bool:
    """True if a condition such as `[ 3 -ne 0 ]` holds."""
    if len(words) != 5 or (words[0], words[-1]) not in (("[", "]"), ("[[", "]]")):
        raise _UnclearError
    first, sign, second = words[1:-1]
    if sign in ("=", "==", "!="):
        return (first == second) is not (sign == "!=")
    compare = _COMPARED.get(sign)
    if compare is None:
        raise _UnclearError
    return compare(int(first), int(second))
