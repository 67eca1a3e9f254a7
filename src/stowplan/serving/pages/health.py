"""The health pages: what is checked, and what is said of it to whom.

A page names its checks and how they came out, never why one failed: anybody may ask. The reason is on the
page of the single check, for those who may see it, and in the log.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple

from aiohttp import web

from stowplan.gocompat.quoting import quote
from stowplan.logs import Journal
from stowplan.serving.pages.answers import answer
from stowplan.serving.routing import Page, Pages

Outcome = str | None
"""What is wrong, None or empty if nothing is."""

Checked = Callable[[str, str, bool], None]
"""Is told of every check: its name, the page's name, and whether it passed."""


class Check(NamedTuple):
    """Something to be checked, at once or after waiting for it."""

    name: str
    problem: Callable[[], Outcome | Awaitable[Outcome]]

    async def outcome(self) -> Outcome:
        """What is wrong. A check that fails to check is something wrong, too."""
        try:
            found = self.problem()
            return (await found if inspect.isawaitable(found) else found) or None
        except Exception as error:  # noqa: BLE001 - a page about health has to answer
            return f"{type(error).__name__}: {error}"


def _nothing() -> Outcome:
    return None


PING = Check("ping", _nothing)
"""Passes as long as there is anybody to answer."""


def health_pages(path: str, checks: Sequence[Check], *, checked: Checked, journal: Journal) -> Pages:
    """The page at a path (`/healthz`) and one for each of its checks. Without checks there is `ping`."""
    checks = tuple(checks) or (PING,)
    pages: dict[str, Page] = {path: _Health(path.strip("/"), checks, checked, journal).page}
    pages.update({f"{path}/{check.name}": _single(check) for check in checks})
    return pages


class _Health:
    """All checks of one page."""

    def __init__(self, name: str, checks: Iterable[Check], checked: Checked, journal: Journal) -> None:
        self._name = name
        self._checks = tuple(checks)
        self._checked = checked
        self._journal = journal

    async def page(self, request: web.Request) -> web.StreamResponse:
        excluded = set(request.query.getall("exclude", ()))
        lines: list[str] = []
        failed: dict[str, str] = {}
        for check in self._checks:
            if check.name in excluded:
                lines.append(f"[+]{check.name} excluded: ok")
                continue
            problem = await check.outcome()
            self._checked(check.name, self._name, problem is None)
            if problem is None:
                lines.append(f"[+]{check.name} ok")
            else:
                failed[check.name] = problem
                lines.append(f"[-]{check.name} failed: reason withheld")
        unknown = sorted(excluded - {check.name for check in self._checks})
        if unknown:
            names = ", ".join(map(quote, unknown))
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
        if failed:
            self._log(failed)
            return answer("\n".join([*lines, f"{self._name} check failed\n"]), status=500)
        if "verbose" not in request.query:
            return answer("ok")
        return answer("\n".join([*lines, f"{self._name} check passed\n"]))

    def _log(self, failed: dict[str, str]) -> None:
        if self._journal.shows(2):
            reasons = "".join(f"[-]{name} failed: {problem}\n" for name, problem in failed.items())
            self._journal.plain(2, f"{','.join(failed)} check failed: {self._name}\n{reasons}")


def _single(check: Check) -> Page:
    async def page(request: web.Request) -> web.StreamResponse:
        problem = await check.outcome()
        if problem is None:
            return answer("ok", sniffed=True)
        return answer(f"internal server error: {problem}\n", status=500)

    return page
