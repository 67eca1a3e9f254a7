"""The page about predicates and priorities: its table says what the code says."""

from pathlib import Path

from config.legacy.documents import SAMPLES
from stowplan.config.legacy.profiles import is_stowplan_only
from stowplan.config.legacy.versions import VERSIONS
from stowplan.scheduler.plugins.legacy.names import PREDICATES, PRIORITIES, PROVIDERS, Meaning, OldName

PAGE = Path(__file__).parents[3] / "docs" / "predicates.md"


def plugins(meaning: Meaning) -> str:
    """The plugins of a name; those that only we have carry a star."""
    return ", ".join(
        f"`{use.plugin}`" + ("\\*" if is_stowplan_only(use.plugin) else "") for use in meaning.uses
    )


def differences(entry: OldName) -> str:
    said = ["the same" if entry.meaning.exact else "differs", entry.meaning.note]
    text = ". ".join(part.rstrip(".") for part in said if part) + "."
    if entry.in_1_9 is not None:
        old = entry.in_1_9
        how = "the same" if old.exact else "differs"
        text += " As of 1.9: " + ". ".join(part.rstrip(".") for part in (how, old.note) if part) + "."
    return f"{text} In kube-scheduler: {entry.today}." if entry.today else text


def row(entry: OldName) -> str:
    runs = plugins(entry.meaning)
    if entry.in_1_9 is not None and plugins(entry.in_1_9) != runs:
        runs += f"; as of 1.9 {plugins(entry.in_1_9)}"
    known = "1.9 – 1.18" if (entry.first, entry.last) == ("1.9", "1.18") else f"{entry.first} – {entry.last}"
    return f"| `{entry.name}` | {known} | {runs} | {differences(entry)} |"


def test_every_name_has_its_row() -> None:
    section = PAGE.read_text().partition("## The names")[2].partition("\n## ")[0]
    shown = [line for line in section.splitlines() if line.startswith("| `")]
    assert shown == [row(entry) for entry in (*PREDICATES.values(), *PRIORITIES.values())]


def test_providers_and_versions_are_named() -> None:
    text = PAGE.read_text()
    assert all(name in text for name in (*PROVIDERS, *VERSIONS))
    assert all(sample.name in text for sample in SAMPLES.iterdir() if "scheduler-policy" in sample.name)
