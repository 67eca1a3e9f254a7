"""Random histories of a store, compared with a model of what should be there and what should be told."""

import asyncio
import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from localcluster.store.stores import HandClock, binding, new_store, pod
from stowplan.api import catalogue as c
from stowplan.api.requests import DeleteOptions, Json, Selection
from stowplan.api.status import ApiError
from stowplan.localcluster.store import StoreChange, WatchStream

T = TypeVar("T")

HISTORY = 12
NAMES = ("a", "b", "c")
NAMESPACES = ("one", "two")
APPS = ("web", "db")
PHASES = ("Pending", "Running", "Succeeded")

names = st.sampled_from(NAMES)
namespaces = st.sampled_from(NAMESPACES)
apps = st.sampled_from(APPS)
picks = st.integers(0, 1000)


@dataclass(frozen=True)
class Selected:
    """A selection in the test's own words."""

    namespace: str = ""
    app: str = ""
    phase: str = ""
    not_phase: str = ""
    node: str | None = None

    def selection(self) -> Selection:
        fields = [f"status.phase={self.phase}"] if self.phase else []
        fields += [f"status.phase!={self.not_phase}"] if self.not_phase else []
        fields += [f"spec.nodeName={self.node}"] if self.node is not None else []
        return Selection.parse(f"app={self.app}" if self.app else "", ",".join(fields))

    def has(self, obj: Json | None) -> bool:
        if obj is None:
            return False
        metadata, phase = obj["metadata"], obj["status"]["phase"]
        return (
            self.namespace in ("", metadata["namespace"])
            and self.app in ("", metadata["labels"]["app"])
            and self.phase in ("", phase)
            and phase != (self.not_phase or None)
            and self.node in (None, obj["spec"].get("nodeName", ""))
        )

    def sees(self, before: Json | None, after: Json | None) -> str | None:
        """Watch event of a change from one state to another, if it shows."""
        match self.has(before), self.has(after):
            case False, True:
                return "ADDED"
            case True, True:
                return "MODIFIED"
            case True, False:
                return "DELETED"
        return None


selections = st.builds(
    Selected,
    namespace=st.sampled_from(("", *NAMESPACES)),
    app=st.sampled_from(("", *APPS)),
    phase=st.sampled_from(("", "Running")),
    not_phase=st.sampled_from(("", "Succeeded")),
    node=st.sampled_from((None, "", "n1")),
)


@dataclass(frozen=True)
class Known:
    """The model's state of a pod."""

    version: int
    app: str
    phase: str = "Pending"
    node: str = ""
    held: bool = False
    grace: int | None = None

    @property
    def deleting(self) -> bool:
        return self.grace is not None


@dataclass
class Watching:
    """A watch in progress: what it selects, from where, and what it was told."""

    selected: Selected
    since: int
    told: list[tuple[int, str, str]] = field(default_factory=list)
    initial: int = 0
    stream: WatchStream | None = None

    def hear(self, change: StoreChange) -> None:
        metadata = change.object["metadata"]
        self.told.append((change.version, change.type, f"{metadata['namespace']}/{metadata['name']}"))


class StoreMachine(RuleBasedStateMachine):
    """Pods are created, changed, bound and deleted, while watches begin, resume and are read."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = HandClock()
        self.store = new_store(self.clock, history=HISTORY)
        self.known: dict[tuple[str, str], Known] = {}
        self.journal: list[tuple[int, str, Json | None, Json | None]] = []
        self.given: list[tuple[Json, Json]] = []
        self.watches: list[Watching] = []
        self.version = 0
        self.store.watch(c.PODS, self._note)

    def _note(self, change: StoreChange) -> None:
        metadata = change.object["metadata"]
        after = None if change.type == "DELETED" else change.object
        self.journal.append(
            (change.version, f"{metadata['namespace']}/{metadata['name']}", change.previous, after)
        )
        self.given.append((change.object, copy.deepcopy(change.object)))

    def _try(self, reason: str | None, action: Callable[[], Json], changes: int = 1) -> Json | None:
        """Act, and see it refused for the reason foreseen or done with that number of changes."""
        refusal, result = attempt(action)
        assert refusal == reason, f"refused with {refusal}, foreseen {reason}"
        self.version += changes if reason is None else 0
        assert self.store.version == self.version
        return result

    @rule(namespace=namespaces, name=names, app=apps, held=st.booleans(), generated=st.booleans())
    def create(self, namespace: str, name: str, app: str, held: bool, generated: bool) -> None:
        if len(self.known) > 20:
            return
        body = pod(name, namespace, labels={"app": app}, finalizers=["hold"] if held else [])
        if generated:
            body["metadata"] = {**body["metadata"], "name": "", "generateName": name}
        taken = not generated and (namespace, name) in self.known
        made = self._try("AlreadyExists" if taken else None, lambda: self.store.create(c.PODS, body))
        if made is not None:
            self.known[namespace, made["metadata"]["name"]] = Known(self.version, app, held=held)

    def _key(self, pick: int) -> tuple[str, str]:
        """One of the pods there are, or now and then one that is not there."""
        keys = [*self.known, ("one", "absent")]
        return keys[pick % len(keys)]

    @rule(pick=picks, app=apps, version=st.sampled_from(("current", "older", "none")))
    def relabel(self, pick: int, app: str, version: str) -> None:
        namespace, name = self._key(pick)
        known = self.known.get((namespace, name))
        if known is None:
            self._try("NotFound", lambda: self.store.update(c.PODS, pod(name, namespace)))
            return
        current = self.store.get(c.PODS, namespace, name)
        said = {"current": str(known.version), "older": f"0{known.version}", "none": ""}[version]
        metadata = {**current["metadata"], "labels": {"app": app}, "resourceVersion": said}
        changes = 0 if app == known.app else 1
        reason = "Conflict" if version == "older" else None
        body = {**current, "metadata": metadata}
        if self._try(reason, lambda: self.store.update(c.PODS, body), changes) is not None and changes:
            self.known[namespace, name] = replace(known, version=self.version, app=app)

    @rule(pick=picks, phase=st.sampled_from(PHASES))
    def set_phase(self, pick: int, phase: str) -> None:
        namespace, name = self._key(pick)
        known = self.known.get((namespace, name))
        reason = None if known else "NotFound"
        changes = 0 if known and known.phase == phase else 1
        self._try(
            reason,
            lambda: self.store.patch(
                c.PODS, namespace, name, {"status": {"phase": phase}}, subresource="status"
            ),
            changes,
        )
        if known and changes:
            self.known[namespace, name] = replace(known, version=self.version, phase=phase)

    @rule(pick=picks, node=st.sampled_from(("n1", "n2")))
    def bind(self, pick: int, node: str) -> None:
        namespace, name = self._key(pick)
        known = self.known.get((namespace, name))
        reason = "NotFound" if known is None else "Conflict" if known.deleting or known.node else None
        self._try(reason, lambda: self.store.bind(namespace, name, binding(name, node)))
        if known and reason is None:
            self.known[namespace, name] = replace(known, version=self.version, node=node)

    @rule(pick=picks, grace=st.sampled_from((None, 0, 5)))
    def delete(self, pick: int, grace: int | None) -> None:
        namespace, name = self._key(pick)
        known = self.known.get((namespace, name))
        if known is None:
            self._try("NotFound", lambda: self.store.delete(c.PODS, namespace, name))
            return
        marked, gone, changes = _deleted(known, grace)
        self._try(None, lambda: self.store.delete(c.PODS, namespace, name, DeleteOptions(grace)), changes)
        if gone:
            del self.known[namespace, name]
        elif changes:
            self.known[namespace, name] = replace(marked, version=self.version)

    @rule(pick=picks)
    def release(self, pick: int) -> None:
        """Take the finalizer away, which may be all that a deletion waits for."""
        namespace, name = self._key(pick)
        known = self.known.get((namespace, name))
        if known is None or not known.held:
            return
        patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["hold"]}}
        self._try(None, lambda: self.store.patch(c.PODS, namespace, name, patch))
        if known.deleting and known.grace == 0:
            del self.known[namespace, name]
        else:
            self.known[namespace, name] = replace(known, version=self.version, held=False)

    @rule(number=st.integers(0, 3))
    def create_something_else(self, number: int) -> None:
        self.store.create(c.CONFIG_MAPS, {"metadata": {"generateName": "m", "namespace": "one"}})
        self.version += 1

    @rule(selected=selections, back=st.integers(-1, 25))
    def resume(self, selected: Selected, back: int) -> None:
        """Begin a watch at some version, remembered, forgotten or not reached."""
        version = max(0, self.version - back)
        forgotten = self.journal[-HISTORY - 1][0] if len(self.journal) > HISTORY else 0
        watching = Watching(selected, version)
        reason = "Expired" if version < forgotten else "Timeout" if version > self.version else None
        refusal, watcher = attempt(
            lambda: self.store.watch(
                c.PODS,
                watching.hear,
                namespace=selected.namespace,
                selection=selected.selection(),
                since=version,
            )
        )
        assert refusal == reason, f"a watch since {version} refused with {refusal}, foreseen {reason}"
        if watcher is not None:
            for change in watcher.backlog:
                watching.hear(change)
            self.watches.append(watching)

    @rule(selected=selections, limit=st.sampled_from((2, 1000)))
    def stream(self, selected: Selected, limit: int) -> None:
        """Begin a watch with everything there is, to be read now and then."""
        watching = Watching(selected, self.version, initial=len(self._listed(selected)) + 1)
        watching.stream = WatchStream(
            lambda sink: self.store.watch(
                c.PODS,
                sink,
                namespace=selected.namespace,
                selection=selected.selection(),
                initial_events=True,
            ),
            limit,
        )
        self.watches.append(watching)

    @precondition(lambda self: any(watching.stream for watching in self.watches))
    @rule()
    def read_streams(self) -> None:
        asyncio.run(self._read_streams())

    async def _read_streams(self) -> None:
        for watching in [watching for watching in self.watches if watching.stream]:
            assert watching.stream is not None
            if watching.stream.cut_off:
                self.watches.remove(watching)
                continue
            expected = self._expected(watching)
            while watching.initial:
                change = await anext(watching.stream)
                watching.initial -= 1
                assert (change.type == "BOOKMARK") is (watching.initial == 0)
            while len(watching.told) < len(expected):
                watching.hear(await anext(watching.stream))

    def _expected(self, watching: Watching) -> list[tuple[int, str, str]]:
        seen = (
            (version, watching.selected.sees(before, after), key)
            for version, key, before, after in self.journal
            if version > watching.since
        )
        return [(version, type_, key) for version, type_, key in seen if type_ is not None]

    def _listed(self, selected: Selected) -> list[Json]:
        return self.store.list(c.PODS, selected.namespace, selected.selection()).items

    @invariant()
    def every_watcher_was_told_what_its_selection_shows(self) -> None:
        for watching in self.watches:
            expected = self._expected(watching)
            told = watching.told
            assert told == (expected[: len(told)] if watching.stream else expected), "told otherwise"

    @invariant()
    def the_journal_adds_up_to_what_is_there(self) -> None:
        state: dict[str, Json] = {}
        for _, key, before, after in self.journal:
            assert state.get(key) == before, "a change does not follow from the one before"
            if after is None:
                del state[key]
            else:
                state[key] = after
        assert [state[key] for key in sorted(state)] == self.store.list(c.PODS).items

    @invariant()
    def versions_rise(self) -> None:
        versions = [version for version, *_ in self.journal]
        assert versions == sorted(set(versions))
        for version, _, _, after in self.journal:
            assert after is None or after["metadata"]["resourceVersion"] == str(version)

    @invariant()
    def the_store_holds_what_the_model_knows(self) -> None:
        found = {}
        for obj in self.store.list(c.PODS).items:
            metadata = obj["metadata"]
            found[metadata["namespace"], metadata["name"]] = Known(
                int(metadata["resourceVersion"]),
                metadata["labels"]["app"],
                obj["status"]["phase"],
                obj["spec"].get("nodeName", ""),
                bool(metadata.get("finalizers")),
                metadata.get("deletionGracePeriodSeconds"),
            )
        assert found == self.known

    def teardown(self) -> None:
        for shown, as_it_was in self.given:
            assert shown == as_it_was, "an object was changed after it had been given out"


def attempt(action: Callable[[], T]) -> tuple[str | None, T | None]:
    """The reason of a refusal, or the result."""
    try:
        return None, action()
    except ApiError as error:
        return error.reason, None


def _deleted(known: Known, asked: int | None) -> tuple[Known, bool, int]:
    """The model's state after a deletion, True if the pod is gone, and the number of changes."""
    if known.deleting:
        assert known.grace is not None
        if known.grace == 0 and known.held:
            return known, False, 0
        if asked is None or asked >= known.grace:
            return known, False, 0
        grace = asked
    else:
        grace = 0 if not known.node or known.phase == "Succeeded" else 30 if asked is None else asked
    gone = grace == 0 and not known.held
    return replace(known, grace=grace), gone, 2 if gone else 1
