"""The same inputs under two releases: the differences, and the documented changes that explain them.

Differences between releases come from their data: the table of plugins, a gate with another default, a choice
in a rule. A fact that differs is explained by a change if it already differs between the older release and
the older release with that change alone, or between the newer one and the newer one without it. documented.py
lists the subjects each change may concern.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

from stowplan.api.releases import Release, differences
from stowplan.config import ConfigError
from stowplan.lab.verify import config, expressions, hints
from stowplan.lab.verify.decisions import facts_of
from stowplan.lab.verify.documented import PLUGINS, is_documented
from stowplan.lab.verify.recording import ABSENT, Line
from stowplan.lab.verify.replay import RecordedScenario, ScenarioReplay, decode_scenario, recorded_gates
from stowplan.lab.verify.report import FactDifference, VerifyReport

DECISIONS, HINTS, DOCUMENTS, EXPRESSIONS = "decisions", "hints", "config", "expressions"

_AREAS: Final = {
    DECISIONS: frozenset({"rules", "preempting", "devices"}),
    HINTS: frozenset({"queueing", "rules"}),
    DOCUMENTS: frozenset({"rules"}),
    EXPRESSIONS: frozenset({"devices"}),
}
"""The areas of behaviour that a kind of recording may show."""

_OFTEN: Final = (
    PLUGINS,
    "preempting.success_text",
    "devices.post_filter_text",
    "gate StorageCapacityScoring",
)
"""Changes that explain most differences: they are tried first."""

_REFUSED: Final = "configuration refused"

Fact = tuple[str, str]
"""Where a fact was stated, and its subject."""
Facts = dict[Fact, Any]
Changes = Mapping[str, Release]


@dataclass(slots=True)
class ReleaseComparison:
    """Result: facts stated, those that differ, their explanations, and unexplained ones."""

    stated: int = 0
    differing: int = 0
    by_change: dict[str, Counter[str]] = field(default_factory=dict)
    """Number of facts of each subject that a change explains."""
    unexplained: list[Fact] = field(default_factory=list)

    @property
    def undocumented(self) -> list[tuple[str, str]]:
        """Changes and subjects they concern although no table says so."""
        return [
            (change, subject)
            for change, subjects in self.by_change.items()
            for subject in sorted(subjects)
            if not is_documented(change, subject)
        ]

    @property
    def failed(self) -> bool:
        return bool(self.unexplained or self.undocumented)


class Comparer:
    """Compares two releases line by line."""

    def __init__(self, old: Release, new: Release) -> None:
        self.old, self.new = old, new
        self._with = _changes(old, new)
        self._without = _changes(new, old)
        self.found = ReleaseComparison()

    def changes_for(self, kind: str) -> list[str]:
        """The changes that a kind of recording may show, those that explain most first."""
        areas = _AREAS[kind]
        names = [name for name in self._with if "." not in name or name.partition(".")[0] in areas]
        return sorted(names, key=lambda name: _OFTEN.index(name) if name in _OFTEN else len(_OFTEN))

    def compare(self, line: Line, *, attempts: int | None = None, every_change: bool = False) -> None:
        """Replay a line as both releases.

        Changes are tried until all is explained, or all of them with `every_change`. Of a scenario the first
        `attempts` are compared.
        """
        kind = kind_of(line)
        if kind is None or not self._can_be_both(line):
            return
        old, new = facts(line, self.old, attempts), facts(line, self.new, attempts)
        left = differing(old, new)
        self.found.stated += len(new)
        self.found.differing += len(left)
        if not left and not every_change:
            return
        for change in self.changes_for(kind):
            explained = differing(old, facts(line, self._with[change], attempts))
            self._note(change, explained if every_change else explained & left)
            left -= explained
            if not left and not every_change:
                return
        for change in self.changes_for(kind) if left else ():
            explained = differing(new, facts(line, self._without[change], attempts)) & left
            self._note(change, explained)
            left -= explained
        self.found.unexplained += sorted(left)

    def _note(self, change: str, explained: Iterable[Fact]) -> None:
        subjects = [subject for _, subject in explained]
        if subjects:
            self.found.by_change.setdefault(change, Counter()).update(subjects)

    def _can_be_both(self, line: Line) -> bool:
        """True if both releases have the gates that a case turns on."""
        named = {setting.partition("=")[0] for setting in line.head.gates or ()}
        return all(named <= release.gates.keys() for release in (self.old, self.new))


def _changes(old: Release, new: Release) -> dict[str, Release]:
    """A release with one thing of another, by its name."""
    found = {PLUGINS: replace(old, plugins=new.plugins, points=new.points)}
    for name, gate in new.gates.items():
        if gate.has_effect and name in old.gates and old.gates[name].default != gate.default:
            found[f"gate {name}"] = replace(old, defaults={name: gate.default})
    for _, choice in differences(old.behaviour, new.behaviour):
        area = replace(getattr(old.behaviour, choice.area), **{choice.name: choice.value})
        behaviour = replace(old.behaviour, **{choice.area: area})
        found[f"{choice.area}.{choice.name}"] = replace(old, behaviour=behaviour)
    return found


def kind_of(line: Line) -> str | None:
    """Kind of recording of a line; None if it is independent of releases."""
    head = line.head
    if head.kind is not None:
        return DOCUMENTS if head.kind == "config" else HINTS if head.kind in hints.KINDS else None
    if head.batches is not ABSENT:
        return None
    return DECISIONS if head.expression is ABSENT else EXPRESSIONS


def facts(line: Line, release: Release, attempts: int | None = None) -> Facts:
    """All facts of a line as a release has them."""
    if kind_of(line) == DECISIONS:
        return _decisions(line, release, attempts)
    collected = _Collected(line)
    replayer = {HINTS: hints, DOCUMENTS: config, EXPRESSIONS: expressions}[kind_of(line) or HINTS]
    replayer.replay_line(replace(line, replayed_as=release), collected)
    return collected.facts


def _decisions(line: Line, release: Release, attempts: int | None) -> Facts:
    """After each attempt the recorded outcome takes effect, so that one difference does not bring others."""
    scenario = _scenario(line.data)
    try:
        replay = ScenarioReplay(scenario, gates=recorded_gates(release))
    except ConfigError as error:
        return {(f"{line.family}: {scenario.name}", _REFUSED): str(error)}
    found: Facts = {}
    for position, expected in enumerate(scenario.expected[:attempts]):
        attempt = replay.attempt(expected).attempt
        if attempt is not None:
            where = f"{line.family}: {scenario.name}, {expected.pod}, attempt {expected.attempt}"
            found |= {(where, subject): fact for subject, fact in facts_of(attempt).items()}
        if expected.crash is not None:
            break
        replay.settle(expected, position)
    return found


@lru_cache(maxsize=1)
def _scenario(data: bytes) -> RecordedScenario:
    return decode_scenario(data)


class _Collected(VerifyReport):
    """Collects results, without comparing them with the recording."""

    def __init__(self, line: Line) -> None:
        super().__init__()
        self._line = f"{line.family}, line {line.number}"
        self.facts: Facts = {}

    def add(self, family: str, subject: str, equal: bool, difference: FactDifference | None = None) -> None:
        if difference is not None:
            self.facts[f"{self._line}: {difference.where}", subject] = difference.actual


def differing(some: Mapping[Fact, Any], others: Mapping[Fact, Any]) -> set[Fact]:
    """The facts that differ, or that only one side states. If a configuration is refused, that alone."""
    stated = some.keys() | others.keys()
    refused = {fact for fact in stated if fact[1] == _REFUSED}
    return {fact for fact in refused or stated if some.get(fact) != others.get(fact)}


def render_differences(found: ReleaseComparison, old: Release, new: Release, limit: int = 10) -> str:
    """A comparison as text: what each change explains, then what nothing explains or documents."""
    lines = [f"{found.stated:,} facts as {old.name} and as {new.name}: {found.differing:,} differ", ""]
    for change, subjects in sorted(found.by_change.items()):
        listed = (f"{subject} ({count:,})" for subject, count in sorted(subjects.items()))
        lines += [change, f"  {', '.join(listed)}"]
    unexplained = [f"{subject}: {where}" for where, subject in found.unexplained]
    undocumented = [f"{subject}, by {change}" for change, subject in found.undocumented]
    for title, kept in (("not explained", unexplained), ("not documented", undocumented)):
        if kept:
            lines += ["", f"{title}: {len(kept):,}", *(f"  {one}" for one in kept[:limit])]
    return "\n".join(lines) + "\n"
