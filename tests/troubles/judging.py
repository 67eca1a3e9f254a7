"""An answer compared with the trouble it is about, and every remedy in it done as it was printed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from stowplan.api.requests import Json
from troubles.corpus import NAMESPACE, Aspect, Instance
from troubles.kubectl import CommandError
from troubles.page import PAGE, section, section_of
from troubles.world import World, world

Complaints = dict[Aspect, list[str]]


@dataclass(frozen=True, slots=True)
class Answer:
    """Everything that stowplan says about a trouble."""

    text: str
    document: Json
    pending: str
    causes: Json
    pages: Sequence[tuple[Json, Json]]
    """The documents of the waiting pods: as the command line has them, and the page."""

    @classmethod
    def of(cls, found: World) -> "Answer":
        ask = ("explain", found.instance.ask, "-n", NAMESPACE)
        waiting = [one for one in found.pods() if not one["spec"].get("nodeName")]
        names = [one["metadata"]["name"] for one in waiting[:1]]
        pages = []
        for name in names:
            page = found.page(f"/pods/{NAMESPACE}/{name}")
            if page is not None:
                pages.append((found.document("explain", f"pod/{name}", "-n", NAMESPACE), page))
        return cls(
            found.command(*ask),
            found.document(*ask),
            found.command("pending"),
            found.document("pending"),
            pages,
        )

    @property
    def headline(self) -> str:
        """The first sentence; of several documents that of the first."""
        return str(_first(self.document).get("headline", ""))

    @property
    def remedy(self) -> str:
        return str(_first(self.document).get("remedy", ""))

    @property
    def changes(self) -> list[Json]:
        """The changes that are offered: of the document, or of the first cause that a workload names."""
        document = _first(self.document)
        found: list[Json] = list(document.get("changes") or ())
        for cause in document.get("causes") or ():
            found = found or list((cause.get("explanation") or {}).get("changes") or ())
        return found


def _first(document: Json) -> Json:
    items: Sequence[Json] = document.get("items") or ()
    return items[0] if document.get("document") == "list" and items else document


def judged(instance: Instance, *, most_remedies: int | None = None) -> Complaints:
    """Complaints about the answer to a trouble, by aspect; none where it is true."""
    with world(instance) as found:
        try:
            answer = Answer.of(found)
        except CommandError as error:
            return {"headline": [f"no answer: {error}"]}
        complaints: Complaints = {
            "headline": list(_about_headline(instance, answer)),
            "remedy": list(_about_remedy(instance, answer)),
            "pending": list(_about_pending(instance, answer)),
            "agrees": list(_about_agreement(answer)),
            "page": list(_about_page(instance, answer)),
        }
        changes = answer.changes[:most_remedies]
        works = [] if not changes else list(_about_change(found, changes[0]))
    for change in changes[1:]:
        with world(instance) as found:
            works += _about_change(found, change)
    return {**complaints, "works": works}


def _about_headline(instance: Instance, answer: Answer) -> Iterator[str]:
    for one in instance.faults:
        yield from _missing(instance.filled(one.headline.has), answer.headline, "the headline")
        yield from _present(instance.filled(one.headline.lacks), answer.headline, "the headline")


def _about_remedy(instance: Instance, answer: Answer) -> Iterator[str]:
    offered = [str(change["text"]) for change in answer.changes]
    for one in instance.faults:
        wanted = one.remedy
        if wanted.first and (not offered or not _has(offered[0], instance.filled(wanted.first))):
            shown = offered[0] if offered else "nothing"
            yield f"{wanted.first!r} should come first, but {shown!r} does"
        elif wanted.command:
            command = str(answer.changes[0].get("command", ""))
            yield from _missing(instance.filled(wanted.command), command, "the first command")
        yield from _missing(instance.filled(wanted.advice), answer.remedy, "the remedy")
        for words in instance.filled(wanted.offers):
            if not any(_has(text, words) for text in offered):
                yield f"{words!r} is not offered, but {', '.join(offered) or 'nothing'}"
        for words in instance.filled(wanted.never):
            yield from (f"{text!r} is offered" for text in offered if _has(text, words))


def _about_pending(instance: Instance, answer: Answer) -> Iterator[str]:
    for one in instance.faults:
        if one.pending is False:
            continue
        flat = _flat(answer.pending)
        name = instance.ask.partition("/")[2]
        if f"{NAMESPACE}/{name}" not in flat:
            yield f"pending does not name {NAMESPACE}/{name}: {flat[:120]}"
        elif one.pending is not True:
            yield from _missing(instance.filled(one.pending), flat, "pending")
    if answer.causes.get("document") != "pending":
        yield "the JSON of pending is another document"


def _about_agreement(answer: Answer) -> Iterator[str]:
    """Terminal, JSON and page say the same."""
    if answer.headline and _flat(answer.headline) not in _flat(answer.text):
        yield f"the terminal does not have the headline {answer.headline!r}"
    for told, page in answer.pages:
        for field in ("headline", "cause", "remedy"):
            if told.get(field) != page.get(field):
                yield f"{field}: {told.get(field)!r}, but on the page {page.get(field)!r}"


def _about_page(instance: Instance, answer: Answer) -> Iterator[str]:
    """docs/troubles.md has this answer."""
    if instance.size != "few" or len(instance.faults) > 1:
        return
    [trouble] = instance.faults
    shown, expected = section_of(PAGE.read_text(), trouble), section(trouble, answer.text)
    if shown != expected:
        yield f"docs/troubles.md has another answer (make troubles writes it):\n{expected}"


def _about_change(found: World, change: Json) -> Iterator[str]:
    """Do it, and see whether the pod runs."""
    text, before = change["text"], found.running()
    command = change.get("command") or ""
    try:
        if command:
            found.kubectl(command)
        elif change.get("action"):
            found.do(change["action"])
        else:
            yield f"{text!r} has no command"
            return
    except CommandError as error:
        yield f"{text!r}: {error}"
        return
    if not found.wait(lambda: found.running() > before):
        yield f"{text!r} was done and the pod does not run: {_state(found)}"


def _state(found: World) -> str:
    """States of the pods after a remedy that did not help."""
    told = []
    for pod in found.pods()[:3]:
        conditions = pod["status"].get("conditions") or ()
        message = next((one.get("message", "") for one in conditions if one["type"] == "PodScheduled"), "")
        told.append(f"{pod['metadata']['name']} {pod['status'].get('phase')} {message}".strip())
    return "; ".join(told) or "there is no pod"


# Words


def _flat(text: str) -> str:
    """A text without the line breaks of a terminal."""
    return " ".join(text.split())


def _has(text: str, words: str) -> bool:
    return words.lower() in text.lower()


def _missing(words: Any, text: str, where: str) -> Iterator[str]:
    yield from (f"{where} does not have {one!r}: {text!r}" for one in words if not _has(text, str(one)))


def _present(words: Any, text: str, where: str) -> Iterator[str]:
    yield from (f"{where} has {one!r}: {text!r}" for one in words if _has(text, str(one)))
