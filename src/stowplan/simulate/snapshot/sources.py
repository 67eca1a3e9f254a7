"""Where a snapshot comes from: the lists of an API server, or what `kubectl get -o yaml` wrote to files."""

import lzma
import sys
import tarfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec

from stowplan.api import catalogue
from stowplan.api.admission import LimitRange, ResourceQuota, RuntimeClass
from stowplan.api.decode import DecodeError, convert_any, identified
from stowplan.api.devices import ResourceClaimTemplate
from stowplan.api.meta import timestamp
from stowplan.api.status import ApiError
from stowplan.api.workloads import PriorityClass
from stowplan.client import Listing, Reader
from stowplan.gocompat.jsontext import TextError
from stowplan.gocompat.yamltext import load_yaml_documents
from stowplan.scheduler.recording.files import RecordingError, inflated_limit, is_recording
from stowplan.scheduler.recording.objects import objects_at
from stowplan.scheduler.watched import (
    AROUND_PODS,
    COMPOSITE_POD_GROUPS,
    COSCHEDULING_GROUPS,
    DEVICE_TAINT_RULES,
    DEVICES,
    NODES,
    POD_GROUPS,
    PODS,
    STORAGE,
    Watched,
)
from stowplan.simulate.snapshot.files import Snapshot, SnapshotError, is_snapshot, read_snapshot
from stowplan.simulate.snapshot.places import Place, not_yaml, read_bytes
from stowplan.simulate.snapshot.tracefiles import has_mapping, is_trace, objects_of_mapping, objects_of_trace

ADMISSION: Final = (
    Watched(
        catalogue.PRIORITY_CLASSES,
        PriorityClass,
        without="pods of manifests that name a class are refused, others have priority 0",
    ),
    Watched(
        catalogue.LIMIT_RANGES,
        LimitRange,
        without="pods of manifests get no default requests, and none is refused by a LimitRange",
    ),
    Watched(
        catalogue.RESOURCE_QUOTAS,
        ResourceQuota,
        without="pods of manifests are counted as if there were no quota",
    ),
    Watched(
        catalogue.RUNTIME_CLASSES,
        RuntimeClass,
        without="pods of manifests that name a runtime class are refused",
    ),
    Watched(
        catalogue.RESOURCE_CLAIM_TEMPLATES,
        ResourceClaimTemplate,
        without="pods of manifests that name a template of claims wait",
    ),
)
"""Kinds that decide what becomes of a manifest: the scheduler itself never reads them."""

KINDS: Final[Sequence[Watched]] = (NODES, PODS, *AROUND_PODS, *STORAGE, *DEVICES, *ADMISSION)
"""Everything that decisions depend on."""

_REQUIRED: Final = (NODES, PODS)
_DUMPED: Final = (NODES, PODS, *STORAGE[:3], *DEVICES, *ADMISSION[:1], AROUND_PODS[0])
"""Kinds that a dump should have. Of the others a cluster may well have none."""
_ELSEWHERE: Final = {
    "pods": "nodes have less room than is assumed",
    "poddisruptionbudgets": "preemption may have to spare more pods",
    "resourceclaims": "more devices are taken than is assumed",
}
"""Kinds whose objects in other namespaces matter, with what is wrong without them."""
_DEFAULT_NAMESPACE: Final = "default"
_SUFFIXES: Final = (".yaml", ".yml", ".json")

Progress = Callable[[str, int], None]
"""Told which resource or file was read, and how many objects there were."""


def _silent(resource: str, count: int) -> None:
    """Nobody wants to know."""


async def read_cluster(
    client: Reader, source: str, progress: Progress = _silent, *, within: str = ""
) -> Snapshot:
    """List everything that decisions depend on. What the server lacks or forbids is noted.

    With the namespace `within`, lists that are forbidden for the whole cluster are read there, and nodes may
    be missing. Raises SnapshotError if nodes or pods cannot be read otherwise.
    """
    found = Snapshot([], source)
    for kind in KINDS:
        try:
            listing = await client.list(kind.served, kind.cls, not_older_than="0")
        except ApiError as error:
            if error.code == 403 and within and await _read_within(client, found, kind, within, progress):
                continue
            if kind in _REQUIRED or error.code not in (403, 404):
                raise SnapshotError(f"list {kind.served.plural}: {error.message}") from None
            _note_unread(found, kind, error)
            continue
        _take(found, kind, listing, progress)
    await _read_taint_rules(client, found, progress)
    await _read_groups(client, found, progress)
    return found


async def _read_within(
    client: Reader, found: Snapshot, kind: Watched, namespace: str, progress: Progress
) -> bool:
    """Read a kind in one namespace, and note what is not known then. False if that is forbidden, too."""
    if kind is NODES:
        found.unread[kind.served.plural] = "nodes could not be read: placement cannot be explained"
        return True
    if not kind.served.namespaced:
        return False
    try:
        listing = await client.list(kind.served, kind.cls, namespace=namespace, not_older_than="0")
    except ApiError:
        return False
    _take(found, kind, listing, progress)
    effect = _ELSEWHERE.get(kind.served.plural)
    if effect is not None:
        text = f"{kind.served.plural} of other namespaces could not be read: {effect}"
        found.unread[kind.served.plural] = text
    return True


async def _read_groups(client: Reader, found: Snapshot, progress: Progress) -> None:
    """List groups of pods of every kind that the server has. Without any there are no groups."""
    for kind in (POD_GROUPS, COMPOSITE_POD_GROUPS, COSCHEDULING_GROUPS):
        try:
            listing = await client.list(kind.served, kind.cls, not_older_than="0")
        except ApiError as error:
            if error.code == 403:
                _note_unread(found, kind, error, kind.served.qualified)
            elif error.code != 404:
                raise SnapshotError(f"list {kind.served.qualified}: {error.message}") from None
            continue
        _take(found, kind, listing, progress)


async def _read_taint_rules(client: Reader, found: Snapshot, progress: Progress) -> None:
    """List rules that taint devices, in the version that the server has. Without any there are no rules."""
    kind = DEVICE_TAINT_RULES
    for served in (catalogue.DEVICE_TAINT_RULES, catalogue.DEVICE_TAINT_RULES_V1BETA2):
        try:
            listing = await client.list(served, kind.cls, not_older_than="0")
        except ApiError as error:
            if error.code == 404:
                continue
            if error.code != 403:
                raise SnapshotError(f"list {served.plural}: {error.message}") from None
            _note_unread(found, kind, error)
            return
        _take(found, kind, listing, progress)
        return


def _note_unread(found: Snapshot, kind: Watched, error: ApiError, name: str = "") -> None:
    """Note a list that was refused. Of a kind that the server does not have there are no objects."""
    text = f"{name or kind.served.plural} could not be read: {kind.without or error.message}"
    found.notes.append(text)
    if error.code == 403:
        found.unread[kind.served.plural] = text


def _take(found: Snapshot, kind: Watched, listing: Listing[Any], progress: Progress) -> None:
    found.objects += listing.items
    found.notes += [f"{kind.served.plural} {one.key}: {one.problem}" for one in listing.unreadable]
    progress(kind.served.plural, len(listing.items))


def read_files(paths: Sequence[Path], progress: Progress = _silent) -> Snapshot:
    """Read files, directories, tar archives, or standard input (`-`). Raises SnapshotError."""
    files = [file for path in paths for file in _files(path)]
    names = ", ".join(map(str, paths))
    found = Snapshot([], names)
    skipped: dict[str, int] = {}
    dumped = False
    for file in files:
        if is_trace(file):
            _take_trace(found, file, progress)
            continue
        if is_recording(file):
            _take_recording(found, file, progress)
            continue
        if is_snapshot(file):
            kept = read_snapshot(file)
            found.objects += kept.objects
            found.notes += kept.notes
            found.unread |= kept.unread
            progress(str(file), len(kept.objects))
            continue
        dumped = True
        for place, document in _with_shapes(file, found):
            try:
                obj = convert_any(document)
            except DecodeError as error:
                raise place.says(str(error)) from None
            if obj is None:
                skipped[document["kind"]] = skipped.get(document["kind"], 0) + 1
            else:
                found.objects.append(identified(obj))
            progress(str(file), 1)
    if skipped:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(skipped.items()))
        found.notes.append(f"not needed for scheduling: {kinds}")
    if dumped:
        types = {type(obj) for obj in found.objects}
        found.unread |= {kind.served.plural: _not_dumped(kind) for kind in _DUMPED if kind.cls not in types}
    return found


def _not_dumped(kind: Watched) -> str:
    effect = ": placement cannot be explained" if kind is NODES else ""
    return f"the dump has no {kind.served.plural}{effect}"


def _take_trace(found: Snapshot, file: Path, progress: Progress) -> None:
    objects = objects_of_trace(file)
    found.objects += objects
    progress(str(file), len(objects))


def _take_recording(found: Snapshot, file: Path, progress: Progress) -> None:
    """The cluster of a recording as it was at its end."""
    try:
        objects, time = objects_at(file)
    except RecordingError as error:
        raise SnapshotError(str(error)) from None
    found.objects += objects
    found.notes.append(f"{file}: the cluster as it was at {timestamp(time)}, the end of the recording")
    progress(str(file), len(objects))


def _with_shapes(file: Path, found: Snapshot) -> Iterator[tuple[Place, dict[str, Any]]]:
    """The objects of a file; the nodes of a document of shapes are added to what was found."""
    for place, document in _parsed(file):
        if isinstance(document, dict) and "kind" not in document and "nodes" in document:
            from stowplan.simulate.snapshot.shapes import nodes_of

            found.objects += nodes_of(document, place)
        elif has_mapping(document):
            found.objects += objects_of_mapping(document, place)
        else:
            yield from _objects(place, document)


def _files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from sorted(file for file in path.rglob("*") if file.suffix in _SUFFIXES)
    else:
        yield path


def documents(path: Path) -> Iterator[tuple[Place, dict[str, Any]]]:
    """The objects of a file or of the files of a tar archive, lists taken apart, each with its place."""
    for place, document in _parsed(path):
        yield from _objects(place, document)


def documents_of_text(name: str, text: str) -> Iterator[tuple[Place, dict[str, Any]]]:
    """The objects of a text in YAML or JSON. Raises SnapshotError, in which the text is called `name`."""
    for place, document in _parsed_text(name, text):
        yield from _objects(place, document)


def _parsed(path: Path) -> Iterator[tuple[Place, Any]]:
    for name, text in _texts(path):
        yield from _parsed_text(name, text)


def _parsed_text(name: str, text: str) -> Iterator[tuple[Place, Any]]:
    try:
        parsed = [msgspec.json.decode(text)] if text.lstrip().startswith("{") else load_yaml_documents(text)
    except (TextError, msgspec.DecodeError) as error:
        raise not_yaml(name, error) from None
    except RecursionError:
        raise SnapshotError(f"{name}: nested too deeply") from None
    for number, document in enumerate(parsed):
        if document is not None:
            yield Place(name, text, number), document


def _texts(path: Path) -> Iterator[tuple[str, str]]:
    if str(path) == "-":
        yield "-", sys.stdin.read()
    elif path.is_file() and tarfile.is_tarfile(path):
        try:
            yield from _members(path)
        except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError) as error:
            raise SnapshotError(f"{path}: damaged or cut off: expected a tar archive: {error}") from None
    else:
        yield str(path), _text(str(path), read_bytes(path))


def _members(path: Path) -> Iterator[tuple[str, str]]:
    """The files of an archive, but not what its links lead to.

    How large they are is checked before they are read, or passed over.
    """
    room = inflated_limit(path.stat().st_size)
    with tarfile.open(path) as archive:
        wanted: list[tarfile.TarInfo] = []
        for member in archive:
            room -= member.size
            if room < 0:
                raise SnapshotError(f"{path}: {member.name}: the archive is too small for files of that size")
            if member.isfile() and member.name.endswith(_SUFFIXES):
                wanted.append(member)
        for member in sorted(wanted, key=lambda one: one.name):
            file = archive.extractfile(member)
            if file is not None:
                yield f"{path}: {member.name}", _text(f"{path}: {member.name}", file.read())


def _text(place: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise SnapshotError(f"{place}: byte {error.start}: expected UTF-8") from None


def _objects(place: Place, document: Any) -> Iterator[tuple[Place, dict[str, Any]]]:
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        raise place.wrong("", "expected an object with apiVersion and kind")
    items = document.get("items")
    if not document["kind"].endswith("List") or not isinstance(items, list):
        yield place, document
        return
    kind = document["kind"].removesuffix("List")
    for number, item in enumerate(items):
        if isinstance(item, dict) and kind:
            item = {"kind": kind, **item}
        yield from _objects(replace(place, items=(*place.items, number)), item)
