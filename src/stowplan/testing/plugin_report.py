"""The report of `check_plugin`: a page in Markdown or HTML that can be attached to a pull request."""

import hashlib
import inspect
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Final, NamedTuple

from stowplan import __version__
from stowplan.scheduler.framework.interface import ExtensionPoint, Plugin, points_of
from stowplan.testing.plugin_answers import CHECKS, PluginCheckError

PASSED: Final = "passed"
FAILED: Final = "failed"
SKIPPED: Final = "skipped"
NOT_REACHED: Final = "not reached"
NOT_APPLICABLE: Final = "does not apply"

_NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "forms-agree": ("filter", "score", "normalize"),
    "score-range": ("score", "score_node"),
    "reserve-balance": ("reserve",),
    "sort-order": ("sort_key",),
    "reads": ("filter", "filter_node", "score", "score_node"),
    "row-local": ("filter", "filter_node", "score", "score_node"),
    "reuse": ("pre_filter", "filter", "filter_node", "pre_score", "score", "score_node"),
    "queueing-hints": ("pre_enqueue", "pre_filter", "filter", "filter_node"),
}
"""Methods without which a check has nothing to look at."""


class CheckResult(NamedTuple):
    """One check: its name, when it holds, the result, and a remark."""

    name: str
    holds_if: str
    result: str
    remark: str = ""


@dataclass(frozen=True)
class CheckReport:
    """Result of all checks of a plugin. `facts` are what was checked, by name; `failure` the example."""

    plugin: str
    facts: Mapping[str, str]
    results: tuple[CheckResult, ...]
    remarks: tuple[str, ...] = ()
    failure: str = ""

    @property
    def passed(self) -> bool:
        return not self.failure

    def markdown(self) -> str:
        """The page as Markdown."""
        lines = [f"# check_plugin: {self.plugin} {PASSED if self.passed else FAILED}", ""]
        lines += [f"- {name}: `{value}`" for name, value in self.facts.items()]
        lines += ["", "| check | holds if | result |", "| --- | --- | --- |"]
        lines += [
            f"| `{one.name}` | {one.holds_if} | {_cell(one).replace('|', chr(92) + '|')} |"
            for one in self.results
        ]
        if self.remarks:
            lines += ["", *(f"- {remark}" for remark in self.remarks)]
        if self.failure:
            lines += ["", "```text", self.failure, "```"]
        return "\n".join([*lines, ""])

    def html(self) -> str:
        """The page as an HTML document that stands by itself."""
        facts = "".join(
            f"<li>{escape(name)}: <code>{escape(value)}</code></li>" for name, value in self.facts.items()
        )
        rows = "".join(
            f"<tr><td><code>{escape(one.name)}</code></td><td>{escape(one.holds_if)}</td>"
            f"<td>{escape(_cell(one))}</td></tr>"
            for one in self.results
        )
        remarks = "".join(f"<li>{escape(remark)}</li>" for remark in self.remarks)
        title = escape(f"check_plugin: {self.plugin} {PASSED if self.passed else FAILED}")
        return (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>'
            f"<body><h1>{title}</h1><ul>{facts}</ul>"
            f"<table><thead><tr><th>check</th><th>holds if</th><th>result</th></tr></thead>"
            f"<tbody>{rows}</tbody></table><ul>{remarks}</ul>"
            f"{f'<pre>{escape(self.failure)}</pre>' if self.failure else ''}</body></html>\n"
        )

    def write(self, path: Path) -> None:
        """Write the page: as HTML if the name ends with .html, otherwise as Markdown."""
        path.write_text(self.html() if path.suffix in (".html", ".htm") else self.markdown())


def _cell(one: CheckResult) -> str:
    return f"{one.result}: {one.remark}" if one.remark else one.result


def report_of(
    cls: type[Plugin],
    args: Any,
    examples: int,
    skip: Mapping[str, str],
    given_up: Mapping[str, str],
    failure: PluginCheckError | None,
) -> CheckReport:
    """The report of checks that passed, or up to the one that failed."""
    results = []
    for name, holds_if in CHECKS.items():
        if failure is not None and name == failure.check:
            results.append(CheckResult(name, holds_if, FAILED, failure.problem))
        elif name in skip:
            results.append(CheckResult(name, holds_if, SKIPPED, skip[name]))
        elif name in _NEEDS and not any(hasattr(cls, method) for method in _NEEDS[name]):
            results.append(CheckResult(name, holds_if, NOT_APPLICABLE))
        else:
            # Examples end at the first failure, so nothing is known of the others.
            results.append(CheckResult(name, holds_if, PASSED if failure is None else NOT_REACHED))
    remarks = tuple(f"{what} could not be checked: {why}" for what, why in given_up.items())
    return CheckReport(
        cls.name,
        _facts(cls, args, examples),
        tuple(results),
        remarks,
        "" if failure is None else str(failure),
    )


def _facts(cls: type[Plugin], args: Any, examples: int) -> dict[str, str]:
    points = [point.value for point in ExtensionPoint if point in points_of(cls)]
    facts = {"extension points": ", ".join(points)}
    module = inspect.getmodule(cls)
    source = Path(getattr(module, "__file__", None) or "")
    if source.is_file():
        facts["file"] = f"{source.name}, sha256:{hashlib.sha256(source.read_bytes()).hexdigest()[:12]}"
    facts["contract"] = str(cls.contract)
    if args is not None:
        facts["arguments"] = f"{args!r:.200}"
    facts["examples"] = str(examples)
    facts["versions"] = f"stowplan {__version__}, Python {platform.python_version()}"
    return facts
