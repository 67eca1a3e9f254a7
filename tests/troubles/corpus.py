"""The corpus: one file for each cause that keeps pods from running, and the words of a true answer.

A file of `causes` has these fields; the texts are also the page docs/troubles.md.

    title, stage     what it is called, and the stage at which it stops (wanted … started)
    see              what people see, before they ask stowplan
    means, helps     what it means, and what helps
    pod              fields of the spec of an ordinary pod; or else `objects` says everything
    template         labels and annotations of that pod
    objects          objects of the cluster, created in this order in the namespace `shop`
    before           commands that are run when these objects exist, such as `kubectl cordon`
    fill             a Deployment `base` with one pod on each node of a pool: `pool`, `requests`, other fields
                     of its spec
    later            objects that are created 3 s after the others
    seconds          for how long the trouble needs to show (3)
    gangs            True: with the feature gates of pod groups
    ask              what is asked for, such as `deployment/web`; the ordinary pod if not said
    headline         `has`: words of the first line; `lacks`: words that would be wrong there
    remedy           `first`: words of the change that comes first, `command`: words of its command;
                     `advice`: words of the remedy in a sentence; `offers`, `never`: words of others
    pending          words that `stowplan pending` says of it, or false if it has no pod that waits
    wrong            what is still wrong with the answer, by aspect

`$infer` is the number of nodes of that pool, `$nodes` of all, `$NODES` those that are left when the pools of
`$(…)` … are taken away.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import yaml

from stowplan.api.requests import Json
from stowplan.localcluster.kubelets import NodeShape
from stowplan.localcluster.kubelets.config import shapes_of

FOLDER: Final = Path(__file__).parent
NAMESPACE: Final = "shop"
NAME: Final = "web"

Size = Literal["few", "many"]
SIZES: Final[tuple[Size, ...]] = ("few", "many")
STAGES: Final = (
    "created", "admitted", "gated", "queued", "placed", "bound", "volumes", "started",
)  # fmt: skip

Aspect = Literal["headline", "remedy", "works", "pending", "agrees", "page"]


class Words(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Words that a sentence must have, and such that would be wrong there."""

    has: tuple[str | int, ...] = ()
    lacks: tuple[str, ...] = ()


class Remedies(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Changes that must be offered, in words of their text."""

    first: str = ""
    command: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    offers: tuple[str, ...] = ()
    never: tuple[str, ...] = ()


class Fill(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Pods that leave little room on the nodes of a pool."""

    pool: str
    requests: dict[str, Any] = {}
    spec: dict[str, Any] = {}
    labels: dict[str, str] = {}

    def deployment(self, count: int) -> Json:
        labels = {"app": "base", **self.labels}
        apart = {"labelSelector": {"matchLabels": {"app": "base"}}, "topologyKey": "kubernetes.io/hostname"}
        spec: Json = {
            "containers": [{"name": "main", "image": "nginx", "resources": {"requests": self.requests}}],
            "nodeSelector": {"pool": self.pool},
            "tolerations": [{"operator": "Exists"}],
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}},
        }
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "base"},
            "spec": {
                "replicas": count,
                "selector": {"matchLabels": {"app": "base"}},
                "template": {"metadata": {"labels": labels}, "spec": _merged(spec, self.spec)},
            },
        }


class Trouble(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file."""

    title: str
    stage: Literal["created", "admitted", "gated", "queued", "placed", "bound", "volumes", "started"]
    see: str
    means: str
    helps: str
    pod: dict[str, Any] | None = None
    template: dict[str, Any] = {}
    objects: tuple[dict[str, Any], ...] = ()
    before: tuple[str, ...] = ()
    fill: Fill | None = None
    later: tuple[dict[str, Any], ...] = ()
    seconds: float = 3.0
    gangs: bool = False
    ask: str = ""
    headline: Words = Words()
    remedy: Remedies = Remedies()
    pending: tuple[str, ...] | bool = True
    wrong: dict[Aspect, str] = {}
    name: str = ""


class _Pool(NodeShape, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A shape with the number of its nodes at both sizes."""

    few: int
    many: int


@cache
def pools() -> list[Json]:
    found: list[Json] = yaml.safe_load((FOLDER / "pools.yaml").read_text())
    return found


def shapes(size: Size) -> list[NodeShape]:
    """The nodes of a cluster of a size."""
    plain = [{key: value for key, value in pool.items() if key not in SIZES} for pool in pools()]
    return shapes_of([{**one, "count": pool[size]} for one, pool in zip(plain, pools(), strict=True)])


@cache
def troubles() -> tuple[Trouble, ...]:
    """All files, in the order of the stages."""
    found = []
    for path in sorted((FOLDER / "causes").glob("*.yaml")):
        try:
            one = msgspec.convert({**yaml.safe_load(path.read_text()), "name": path.stem}, Trouble)
        except (msgspec.ValidationError, yaml.YAMLError, TypeError) as error:
            raise ValueError(f"{path}: {error}") from None
        if (one.pod is None) == (not one.ask):
            raise ValueError(f"{path}: expected either `pod`, or `objects` and `ask`")
        found.append(one)
    return tuple(sorted(found, key=lambda one: (STAGES.index(one.stage), one.name)))


def named(name: str) -> Trouble:
    return next(one for one in troubles() if one.name == name)


@dataclass(frozen=True, slots=True)
class Instance:
    """A trouble in a cluster of a size; the pods of `faults` all belong to the one that is asked for."""

    faults: tuple[Trouble, ...]
    size: Size
    owned: bool = False
    """True: the ordinary pod is that of a Deployment."""
    counts: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, faults: Sequence[Trouble], size: Size, *, owned: bool = False) -> "Instance":
        counts = {pool["labels"]["pool"]: pool[size] for pool in pools()}
        return cls(tuple(faults), size, owned, {**counts, "nodes": sum(counts.values())})

    @property
    def ask(self) -> str:
        [*_, last] = self.faults
        if last.ask:
            return str(self.filled(last.ask))
        return f"deployment/{NAME}" if self.owned else f"pod/{NAME}"

    @property
    def gangs(self) -> bool:
        return any(one.gangs for one in self.faults)

    @property
    def seconds(self) -> float:
        return max(one.seconds for one in self.faults)

    def objects(self) -> list[Json]:
        """Everything that is created before the pod."""
        return [self.filled(obj) for one in self.faults for obj in one.objects]

    def fill(self) -> list[Json]:
        """Pods that take up the nodes."""
        fills = [one.fill for one in self.faults if one.fill is not None]
        return [self.filled(fill.deployment(self.counts[fill.pool])) for fill in fills]

    def later(self) -> list[Json]:
        return [self.filled(obj) for one in self.faults for obj in one.later]

    def before(self) -> list[str]:
        return [self.filled(line) for one in self.faults for line in one.before]

    def pod(self) -> Json | None:
        """The ordinary pod with all faults, or the Deployment of one such."""
        if any(one.pod is None for one in self.faults):
            return None
        container = {"name": "main", "image": "nginx", "resources": {"requests": {"cpu": "100m"}}}
        spec: Json = {"containers": [container]}
        metadata: Json = {"labels": {"app": NAME}}
        for one in self.faults:
            spec = _merged(spec, self.filled(one.pod))
            metadata = _merged(metadata, self.filled(one.template))
        if not self.owned:
            return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": NAME, **metadata}, "spec": spec}
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": NAME},
            "spec": {
                "selector": {"matchLabels": {"app": NAME}},
                "template": {"metadata": metadata, "spec": spec},
            },
        }

    def filled(self, value: Any) -> Any:
        """A value with the numbers of nodes for their names; a text that is one alone becomes a number."""
        if isinstance(value, dict):
            return {key: self.filled(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [self.filled(one) for one in value]
        if not isinstance(value, str) or "$" not in value:
            return value
        whole = re.fullmatch(r"\$\((.*)\)", value)
        if whole is not None:
            return self._sum(whole[1])
        text = re.sub(r"\$\(([^)]*)\)", lambda found: str(self._sum(found[1])), value)
        if re.fullmatch(r"\$[a-z]+", text) and text[1:] in self.counts:
            return self.counts[text[1:]]
        return re.sub(r"\$([a-z]+)", lambda found: str(self.counts[found[1]]), text)

    def _sum(self, text: str) -> int:
        """`general + 1`, `nodes - infer - gpu`."""
        total, sign = 0, 1
        for word in text.split():
            if word in "+-":
                sign = 1 if word == "+" else -1
            else:
                total += sign * (self.counts[word] if word in self.counts else int(word))
        return total


_BY_NAME: Final = ("containers", "volumes", "resourceClaims")
"""Lists of a pod's spec whose entries are merged by name."""


def _merged(spec: Json, more: Json) -> Json:
    """Both specs in one: maps are merged, lists joined."""
    found = dict(spec)
    for key, value in more.items():
        old = found.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            found[key] = _merged(old, value)
        elif isinstance(old, list) and key in _BY_NAME:
            by_name = {one["name"]: one for one in old}
            for one in value:
                by_name[one["name"]] = _merged(by_name.get(one["name"], {}), one)
            found[key] = [*by_name.values()]
        elif isinstance(old, list):
            found[key] = [*old, *value]
        else:
            found[key] = value
    return found
