"""The health pages: /healthz, /livez and /readyz, and one page for each check.

The pages need no authorization, so they do not tell why a check failed. The reason is on the check's own page
and in the log.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple

from aiohttp import web

from stowplan.gocompat.quoting import quote
from stowplan.runtime.logs import Logger
from stowplan.server.serving.filters import Page, Pages
from stowplan.server.serving.responses import response

Outcome = str | None
"""The problem, None or empty if the check passed."""

Checked = Callable[[str, str, bool], None]
"""Called after every check with its name, the page's name, and whether it passed."""


class Check(NamedTuple):
    """A health check, a function or a coroutine function."""

    name: str
    problem: Callable[[], Outcome | Awaitable[Outcome]]

    async def outcome(self) -> Outcome:
        """The problem; an exception of the check is one, too."""
        try:
            found = self.problem()
            return (await found if inspect.isawaitable(found) else found) or None
        except Exception as error:  # noqa: BLE001 - a health page must respond
            return f"{type(error).__name__}: {error}"


def _no_problem() -> Outcome:
    return None


PING = Check("ping", _no_problem)
"""Always passes."""


def health_pages(path: str, checks: Sequence[Check], *, checked: Checked, logger: Logger) -> Pages:
    """The page at a path (`/healthz`) and one for each check. Without checks there is `ping`."""
    checks = tuple(checks) or (PING,)
    pages: dict[str, Page] = {path: _HealthPage(path.strip("/"), checks, checked, logger).page}
    pages.update({f"{path}/{check.name}": _check_page(check) for check in checks})
    return pages


class _HealthPage:
    """All checks of one page."""

    def __init__(self, name: str, checks: Iterable[Check], checked: Checked, logger: Logger) -> None:
        self._name = name
        self._checks = tuple(checks)
        self._checked = checked
        self._logger = logger

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
            return response("\n".join([*lines, f"{self._name} check failed\n"]), status=500)
        if "verbose" not in request.query:
            return response("ok")
        return response("\n".join([*lines, f"{self._name} check passed\n"]))

    def _log(self, failed: dict[str, str]) -> None:
        if self._logger.enabled(2):
            reasons = "".join(f"[-]{name} failed: {problem}\n" for name, problem in failed.items())
            self._logger.plain(2, f"{','.join(failed)} check failed: {self._name}\n{reasons}")


def _check_page(check: Check) -> Page:
    async def page(request: web.Request) -> web.StreamResponse:
        problem = await check.outcome()
        if problem is None:
            return response("ok", sniffed=True)
        return response(f"internal server error: {problem}\n", status=500)

    return page
