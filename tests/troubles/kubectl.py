"""The part of kubectl that remedies are printed in, as requests to the API server of a virtual cluster.

It exists because real kubectl takes a tenth of a second for each command and cannot live in virtual time. A
command that it does not know is an error: then either the printed command is wrong, or this has to learn it.
"""

import argparse
import json
import re
import shlex
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn
from urllib.parse import quote

import yaml

from stowplan.api.catalogue import Catalogue, Resource
from stowplan.api.requests import DeleteOptions, Json, PatchType
from stowplan.api.status import ApiError
from stowplan.client.http import HttpClient
from stowplan.localcluster.store.patches import patched

PATCH_TYPES = {"strategic": PatchType.STRATEGIC, "merge": PatchType.MERGE, "json": PatchType.JSON}
GONE_WITHIN = 60
"""Seconds that `kubectl delete` waits for an object to be gone before a test counts it as stuck."""
_HEREDOC = re.compile(
    r"<<-?\s*(['\"]?)(?P<end>\w+)\1[ \t]*(?P<rest>[^\n]*)\n(?P<text>.*?)\n(?P=end)(?:\n|$)", re.S
)
_FAIL = "pretend.stowplan.io/fail"


class CommandError(Exception):
    """A command that failed, with what it printed."""


class ShellLine(NamedTuple):
    """One line of a script: commands joined by pipes, and the standard input of the first."""

    pipeline: list[list[str]]
    stdin: str


def shell_lines(script: str) -> Iterator[ShellLine]:
    """The commands of a script: one a line, or joined by `&&`; each may have a heredoc."""
    rest = script.replace("\\\n", " ")
    while rest.strip():
        line, _, after = rest.partition("\n")
        found = _HEREDOC.search(rest)
        stdin = ""
        if found is not None and found.start() < len(line):
            line = f"{rest[: found.start()]} {found['rest']}"
            stdin, after = found["text"], rest[found.end() :]
        rest = after
        words = shlex.split(line, comments=True)
        while words:
            end = words.index("&&") if "&&" in words else len(words)
            if words[:end]:
                yield ShellLine(_split_at_pipes(words[:end]), stdin)
            words = words[end + 1 :]


def _split_at_pipes(words: list[str]) -> list[list[str]]:
    found: list[list[str]] = [[]]
    for word in words:
        if word == "|":
            found.append([])
        else:
            found[-1].append(word)
    return found


class Kubectl:
    """Runs scripts of kubectl commands with a client. `sleep` lets time pass."""

    def __init__(
        self, client: HttpClient, catalogue: Catalogue, sleep: Callable[[float], Awaitable[object]]
    ) -> None:
        self._client = client
        self._catalogue = catalogue
        self._sleep = sleep

    async def run(self, script: str) -> None:
        """Run a script. Raises CommandError."""
        for line in shell_lines(script):
            text = line.stdin
            for words in line.pipeline:
                try:
                    text = await self._run(words, text) or ""
                except ApiError as error:
                    raise CommandError(f"{shlex.join(words)}: {error.message}") from None

    async def _run(self, words: list[str], stdin: str) -> str | None:
        """Run one command; gives what it prints, where anything reads that."""
        if words[0] == "sleep":
            await self._sleep(float(words[1]))
            return None
        if words[:3] in (["stowplan", "node", "recover"], ["stowplan", "node", "fail"]):
            await self._annotate_node(words[3], words[2])
            return None
        if words[0] != "kubectl" or len(words) < 2:
            raise CommandError(f"not a command of kubectl or `stowplan node`: {shlex.join(words)}")
        flags, names = _Parser.parsed(words[1:])
        verb, *rest = names
        found = getattr(self, f"_{verb.replace('-', '_')}", None)
        if found is None:
            raise CommandError(f"kubectl {verb}: this verb is not known here")
        printed: str | None = await found(rest, flags, stdin)
        return printed

    # Verbs

    async def _get(self, names: Sequence[str], flags: argparse.Namespace, stdin: str) -> str:
        [(resource, name)] = self._named(names)
        if flags.output != "json":
            raise CommandError(f"kubectl get -o {flags.output}: only json is known here")
        return json.dumps(await self._client.get(resource, _namespace(resource, flags), name))

    async def _patch(self, names: Sequence[str], flags: argparse.Namespace, stdin: str) -> str | None:
        kind = PATCH_TYPES[flags.type or "strategic"]
        if flags.local:
            [body] = _documents(stdin, flags)
            resource, _, _ = self._place(body, flags)
            return json.dumps(patched(resource, body, json.loads(flags.patch), kind))
        for resource, name in self._named(names):
            await self._client.patch(
                resource,
                _namespace(resource, flags),
                name,
                json.loads(flags.patch),
                kind,
                subresource=flags.subresource,
            )
        return None

    async def _label(self, names: Sequence[str], flags: argparse.Namespace, stdin: str) -> None:
        await self._set_metadata("labels", names, flags)

    async def _annotate(self, names: Sequence[str], flags: argparse.Namespace, stdin: str) -> None:
        await self._set_metadata("annotations", names, flags)

    async def _set_metadata(self, field: str, names: Sequence[str], flags: argparse.Namespace) -> None:
        objects, pairs = _split_pairs(names)
        values = dict(_pair(one) for one in pairs)
        for resource, name in self._named(objects):
            namespace = _namespace(resource, flags)
            if not flags.overwrite:
                old = (await self._client.get(resource, namespace, name))["metadata"].get(field) or {}
                clash = [
                    key for key, value in values.items() if value is not None and old.get(key, value) != value
                ]
                if clash:
                    raise CommandError(f"error: {clash[0]} already has a value, and --overwrite is false")
            await self._client.patch(
                resource, namespace, name, {"metadata": {field: values}}, PatchType.MERGE
            )

    async def _taint(self, names: Sequence[str], flags: argparse.Namespace, stdin: str) -> None:
        place = next(number for number, one in enumerate(names) if ":" in one or one.endswith("-"))
        for resource, name in self._named(names[:place]):
            node = await self._client.get(resource, "", name)
            taints = list(node["spec"].get("taints") or ())
            for one in names[place:]:
                removed = one.endswith("-")
                pair, _, effect = one.rstrip("-").partition(":")
                key, _, value = pair.partition("=")
                kept = [t for t in taints if t["key"] != key or (effect and t["effect"] != effect)]
                if removed and len(kept) == len(taints):
                    raise CommandError(f'error: taint "{one.rstrip("-")}" not found')
                taints = kept if removed else [*kept, {"key": key, "value": value, "effect": effect}]
            await self._client.patch(resource, "", name, {"spec": {"taints": taints}}, PatchType.MERGE)

    async def _cordon(self, names: Sequence[str], flags: argparse.Namespace, stdin: str) -> None:
        await self._set_unschedulable(names, True)

    async def _uncordon(self, names: Sequence[str], flags: argparse.Namespace, stdin: str) -> None:
        await self._set_unschedulable(names, None)

    async def _set_unschedulable(self, names: Sequence[str], value: bool | None) -> None:
        for name in names:
            patch = {"spec": {"unschedulable": value}}
            await self._client.patch(
                self._resource("node"), "", name.removeprefix("node/"), patch, PatchType.MERGE
            )

    async def _annotate_node(self, name: str, verb: str) -> None:
        patch = {"metadata": {"annotations": {_FAIL: "true" if verb == "fail" else None}}}
        await self._client.patch(self._resource("node"), "", name, patch, PatchType.MERGE)

    async def _scale(self, names: Sequence[str], flags: argparse.Namespace, stdin: str) -> None:
        patch = {"spec": {"replicas": int(flags.replicas)}}
        for resource, name in self._named(names):
            await self._client.patch(resource, _namespace(resource, flags), name, patch, PatchType.MERGE)

    async def _rollout(self, names: Sequence[str], flags: argparse.Namespace, stdin: str) -> None:
        what, *objects = names
        if what not in ("pause", "resume"):
            raise CommandError(f"kubectl rollout {what}: this is not known here")
        for resource, name in self._named(objects):
            patch = {"spec": {"paused": what == "pause" or None}}
            await self._client.patch(resource, _namespace(resource, flags), name, patch, PatchType.MERGE)

    async def _delete(self, names: Sequence[str], flags: argparse.Namespace, stdin: str) -> None:
        for resource, name in self._named(names):
            if flags.wait == "false":
                await self._client.delete(resource, _namespace(resource, flags), name)
            else:
                await self._delete_and_wait(resource, _namespace(resource, flags), name)

    async def _delete_and_wait(self, resource: Resource, namespace: str, name: str) -> None:
        uid = (await self._client.get(resource, namespace, name))["metadata"]["uid"]
        await self._client.delete(resource, namespace, name, DeleteOptions(propagation="Background"))
        for _ in range(GONE_WITHIN):
            try:
                if (await self._client.get(resource, namespace, name))["metadata"]["uid"] != uid:
                    return
            except ApiError as error:
                if error.code != 404:
                    raise
                return
            await self._sleep(1)
        raise CommandError(f"{resource.plural} {name}: still there {GONE_WITHIN} s after its deletion")

    async def _apply(self, names: Sequence[str], flags: argparse.Namespace, stdin: str) -> None:
        for body in _documents(stdin, flags):
            resource, namespace, name = self._place(body, flags)
            within = f"/namespaces/{namespace}" if namespace else ""
            path = f"{resource.prefix}{within}/{resource.plural}/{quote(name)}"
            query = "?fieldManager=kubectl-client-side-apply&force=true"
            text = json.dumps(body).encode()
            await self._client._transport.request("PATCH", path + query, text, "application/apply-patch+yaml")

    async def _create(self, names: Sequence[str], flags: argparse.Namespace, stdin: str) -> None:
        bodies = _documents(stdin, flags) if flags.filename else [_body_of(names, flags)]
        for body in bodies:
            resource, namespace, _ = self._place(body, flags)
            await self._client.create(resource, body, namespace=namespace)

    async def _replace(self, names: Sequence[str], flags: argparse.Namespace, stdin: str) -> None:
        for body in _documents(stdin, flags):
            resource, namespace, name = self._place(body, flags)
            if not flags.force:
                await self._client.update(resource, body)
                continue
            try:
                await self._delete_and_wait(resource, namespace, name)
            except ApiError as error:
                if error.code != 404:
                    raise
            fresh = {key: value for key, value in body["metadata"].items() if key != "resourceVersion"}
            await self._client.create(resource, {**body, "metadata": fresh}, namespace=namespace)

    async def _set(self, names: Sequence[str], flags: argparse.Namespace, stdin: str) -> None:
        what, *objects = names
        for resource, name in self._named(_split_pairs(objects)[0]):
            namespace = _namespace(resource, flags)
            obj = await self._client.get(resource, namespace, name)
            containers = _pod_spec(obj)["containers"]
            chosen = [one for one in containers if flags.containers in ("*", one["name"])]
            if not chosen:
                raise CommandError(f"error: unable to find container named {flags.containers}")
            patches = [{"name": one["name"], **_set_of(what, one, objects, flags)} for one in chosen]
            spec: Json = {"containers": patches}
            patch = {"spec": {"template": {"spec": spec}} if "template" in obj["spec"] else spec}
            await self._client.patch(resource, namespace, name, patch)

    # Names

    def _resource(self, name: str) -> Resource:
        """The resource of a name that kubectl accepts: `deploy`, `nodes`, `deployments.apps`."""
        plain, _, group = name.lower().partition(".")
        for one in self._catalogue:
            called = (one.plural, one.singular or one.kind.lower(), *one.short_names)
            if plain in called and (not group or group in (one.group, f"{one.version}.{one.group}")):
                return one
        raise CommandError(f'error: the server doesn\'t have a resource type "{name}"')

    def _named(self, names: Sequence[str]) -> list[tuple[Resource, str]]:
        """Objects as kubectl takes them: `deploy web db` or `deploy/web pod/db`."""
        if names and "/" not in names[0]:
            return [(self._resource(names[0]), name) for name in names[1:]]
        pairs = (one.split("/", 1) for one in names)
        return [(self._resource(kind), name) for kind, name in pairs]

    def _place(self, body: Json, flags: argparse.Namespace) -> tuple[Resource, str, str]:
        resource = self._catalogue.of_kind(body.get("apiVersion", ""), body.get("kind", ""))
        if resource is None:
            raise CommandError(
                f"no matches for kind {body.get('kind')!r} in version {body.get('apiVersion')!r}"
            )
        metadata = body["metadata"]
        namespace = metadata.get("namespace") or flags.namespace if resource.namespaced else ""
        return resource, namespace, metadata["name"]


class _Parser(argparse.ArgumentParser):
    """The flags of kubectl that are understood. Any other is an error."""

    @classmethod
    def parsed(cls, words: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
        parser = cls(add_help=False, allow_abbrev=False)
        parser.add_argument("-n", "--namespace", default="default")
        parser.add_argument("-p", "--patch", default="")
        parser.add_argument("-f", "--filename", default="")
        parser.add_argument("-o", "--output", default="")
        parser.add_argument("-c", "--containers", default="*")
        for name in ("--type", "--subresource", "--replicas", "--requests", "--limits", "--value"):
            parser.add_argument(name, default="")
        for name in ("--hard", "--description", "--preemption-policy", "--wait"):
            parser.add_argument(name, default="")
        for name in ("--overwrite", "--force", "--server-side", "--force-conflicts", "--local"):
            parser.add_argument(name, action="store_true")
        flags, rest = parser.parse_known_args(words)
        unknown = [one for one in rest if one.startswith("-") and not one.endswith("-")]
        if unknown:
            parser.error(f"unknown flag: {unknown[0]}")
        return flags, rest

    def error(self, message: str) -> NoReturn:
        raise CommandError(f"error: {message}")


def _namespace(resource: Resource, flags: argparse.Namespace) -> str:
    return str(flags.namespace) if resource.namespaced else ""


def _split_pairs(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Objects, and the `key=value` and `key-` that follow them."""
    is_pair = [("=" in one or one.endswith("-")) for one in words]
    place = is_pair.index(True) if True in is_pair else len(words)
    return list(words[:place]), list(words[place:])


def _pair(text: str) -> tuple[str, str | None]:
    key, equals, value = text.partition("=")
    return (key, value) if equals else (key.removesuffix("-"), None)


def _documents(stdin: str, flags: argparse.Namespace) -> list[Json]:
    if flags.filename != "-":
        raise CommandError(f"-f {flags.filename}: only standard input can be copied from a terminal")
    return [one for one in yaml.safe_load_all(stdin) if one]


def _quantities(text: str) -> Json:
    return dict(one.split("=", 1) for one in text.split(",")) if text else {}


def _body_of(names: Sequence[str], flags: argparse.Namespace) -> Json:
    """The object that `kubectl create KIND NAME` makes."""
    kind, *rest = names
    name = rest[-1]
    if kind in ("serviceaccount", "sa"):
        return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    if kind in ("namespace", "ns"):
        return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    if kind in ("priorityclass", "pc"):
        body: Json = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
        }
        policy = {"preemptionPolicy": flags.preemption_policy} if flags.preemption_policy else {}
        return {**body, "value": int(flags.value), "description": flags.description, **policy}
    if kind == "quota":
        spec = {"hard": _quantities(flags.hard)}
        return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": spec}
    raise CommandError(f"kubectl create {kind}: this kind is not known here")


def _pod_spec(obj: Json) -> Json:
    spec: Json = obj["spec"]
    found: Json = spec["template"]["spec"] if "template" in spec else spec
    return found


def _set_of(what: str, container: Json, words: Sequence[str], flags: argparse.Namespace) -> dict[str, Any]:
    """The change of `kubectl set WHAT` in a container."""
    if what == "resources":
        amounts = {"requests": _quantities(flags.requests), "limits": _quantities(flags.limits)}
        return {"resources": {name: value for name, value in amounts.items() if value}}
    if what == "image":
        images = dict(one.split("=", 1) for one in words if "=" in one)
        image = images.get(container["name"], images.get("*"))
        return {"image": image} if image else {}
    raise CommandError(f"kubectl set {what}: this is not known here")
