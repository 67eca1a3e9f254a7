"""Tests of an `e2e.test` binary: listed by a dry run, then run one by one, each with a time limit.

A process for each test costs a second of CPU. In return a test that hangs costs its time limit and nothing
else: Ginkgo's own limit is for a whole run, and what it interrupts may hang in its clean-up.
"""

import asyncio
import json
import re
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

_GRACE: Final = 60.0
"""Seconds after its time limit in which a test may clean up before its process is killed."""
_LISTING: Final = 120.0
_SPECIAL: Final = re.compile(r"([\\.+*?()|\[\]{}^$])")
_SERIAL: Final = "[Serial]"
_IT: Final = "It"
_STEP: Final = "By"
_LONGEST: Final = 1500
"""Characters of a message that are kept."""
_MOST_LINES: Final = 4
"""Lines of a failure that are kept."""


class SuiteError(ValueError):
    """A binary that cannot be used; the message is one line."""


class Outcome(StrEnum):
    """End of a test."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    UNFINISHED = "unfinished"


@dataclass(frozen=True, slots=True)
class TestResult:
    """Outcome of a test, with its message unless it passed."""

    __test__ = False

    name: str
    outcome: Outcome
    seconds: float = 0.0
    message: str = ""


_OUTCOMES: Final = {
    "passed": Outcome.PASSED,
    "skipped": Outcome.SKIPPED,
    "pending": Outcome.SKIPPED,
    "timedout": Outcome.UNFINISHED,
    "interrupted": Outcome.UNFINISHED,
    "aborted": Outcome.UNFINISHED,
}
"""Ginkgo's states; all others are failures."""


@dataclass(frozen=True, slots=True)
class E2eTests:
    """An `e2e.test` binary, and the kubeconfig of the cluster that it tests.

    `timeout` is the limit for a test in seconds, `options` are further options of the binary.
    """

    binary: Path
    kubeconfig: Path | None = None
    timeout: float = 600.0
    options: Sequence[str] = ()

    async def names(self, focus: str, skip: str) -> list[str]:
        """The tests that two regular expressions choose. Raises `SuiteError`."""
        options = ["--ginkgo.dry-run", f"--ginkgo.focus={focus}"]
        if skip:
            options.append(f"--ginkgo.skip={skip}")
        found, said = await self._run(options, _LISTING)
        if found is None:
            raise SuiteError(f"{self.binary}: expected an e2e.test binary of Kubernetes: {_last_line(said)}")
        return [_name_of(spec) for spec in found if spec["State"] == "passed"]

    async def run(self, name: str) -> TestResult:
        """Run one test."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        options = [
            f"--ginkgo.focus={_quoted(name)}$",
            f"--ginkgo.timeout={self.timeout:g}s",
            "--provider=skeleton",
            f"--kubeconfig={self.kubeconfig}",
            *self.options,
        ]
        found, said = await self._run(options, self.timeout + _GRACE)
        seconds = loop.time() - began
        if found is None:
            return TestResult(name, Outcome.UNFINISHED, seconds, _last_line(said) or "killed")
        spec = next((one for one in found if _name_of(one) == name), None)
        if spec is None:
            return TestResult(name, Outcome.UNFINISHED, seconds, "the binary does not have this test")
        state = spec["State"]
        message = "" if state == "passed" else _message_of(spec)
        return TestResult(name, _OUTCOMES.get(state, Outcome.FAILED), seconds, message)

    async def _run(self, options: Sequence[str], limit: float) -> tuple[list[Any] | None, str]:
        """The specs of a run, None if there is no report, and the end of its output."""
        with tempfile.TemporaryDirectory(prefix="stowplan-e2e-") as folder:
            report = Path(folder) / "report.json"
            words = [*options, f"--ginkgo.json-report={report}", "--ginkgo.no-color", "--ginkgo.succinct"]
            try:
                process = await asyncio.create_subprocess_exec(
                    self.binary,
                    *words,
                    cwd=folder,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.STDOUT,
                )
            except OSError as error:
                raise SuiteError(f"{self.binary}: {error.strerror}") from None
            said = b""
            try:
                async with asyncio.timeout(limit):
                    said, _ = await process.communicate()
            except TimeoutError:
                return None, f"killed after {limit:g} s"
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
            try:
                suites = json.loads(report.read_text(encoding="utf-8"))
                specs = [one for suite in suites for one in suite["SpecReports"] or ()]
            except (OSError, ValueError, KeyError, TypeError):
                return None, said.decode(errors="replace")
            return [one for one in specs if one.get("LeafNodeType") == _IT], ""


def _name_of(spec: Any) -> str:
    return " ".join((*(spec.get("ContainerHierarchyTexts") or ()), spec.get("LeafNodeText") or ""))


def _message_of(spec: Any) -> str:
    """The first lines of a failure; of an interrupted test the step that it had come to."""
    failure = spec.get("Failure") or {}
    text = failure.get("Message") or failure.get("ForwardedPanic") or ""
    if _OUTCOMES.get(spec["State"]) == Outcome.UNFINISHED:
        steps = [one for one in spec.get("SpecEvents") or () if one.get("SpecEventType") == _STEP]
        text = f"not finished at: {steps[-1].get('Message')}" if steps else text
    lines = [line.strip() for line in str(text).splitlines() if line.strip()]
    return " ".join(lines[:_MOST_LINES])[:_LONGEST]


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""


def _quoted(name: str) -> str:
    """A name as a regular expression of Go, which has other escapes than Python."""
    return _SPECIAL.sub(r"\\\1", name)


async def run_all(
    tests: E2eTests, names: Sequence[str], *, processes: int, told: Callable[[TestResult], None]
) -> list[TestResult]:
    """Run tests, some at a time; those that are to run alone come last."""
    alone = [name for name in names if _SERIAL in name]
    found: dict[str, TestResult] = {}
    for some, width in (([name for name in names if name not in alone], processes), (alone, 1)):
        async for result in _in_turns(tests, some, width):
            found[result.name] = result
            told(result)
    return [found[name] for name in names]


async def _in_turns(tests: E2eTests, names: Sequence[str], width: int) -> AsyncIterator[TestResult]:
    waiting = list(reversed(names))
    running: set[asyncio.Task[TestResult]] = set()
    try:
        while waiting or running:
            while waiting and len(running) < width:
                running.add(asyncio.create_task(tests.run(waiting.pop())))
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                yield task.result()
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
