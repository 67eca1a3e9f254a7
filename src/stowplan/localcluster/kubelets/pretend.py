"""How pods and nodes behave: settings, rules of a YAML file, and annotations.

The default is that of the settings; the first rule of the file that selects a pod or node overrides it, field
by field, and an annotation of the object overrides both.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from stowplan.api.labels import EVERYTHING, Selector, SelectorError, compile_selector
from stowplan.api.meta import LabelSelector
from stowplan.api.requests import Json
from stowplan.gocompat.jsontext import TextError
from stowplan.gocompat.yamltext import load_yaml
from stowplan.localcluster.kubelets.commands import run_of
from stowplan.localcluster.kubelets.images import PullMode
from stowplan.localcluster.kubelets.probes import KINDS as PROBE_KINDS
from stowplan.localcluster.objects.fields import annotations_of, labels_of, namespace_of
from stowplan.localcluster.objects.usage import CPU_USAGE, MEMORY_USAGE, usage_problem

PREFIX: Final = "pretend.stowplan.io/"
FAIL: Final = f"{PREFIX}fail"
"""The annotation that makes a node fail."""

HEARTBEAT: Final = f"{PREFIX}heartbeat-seconds"
IMAGE_PULL: Final = f"{PREFIX}image-pull"
SILENT: Final = "Silent"
"""The failure of a node that does not report any more."""

CONDITIONS: Final = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
"""Conditions that nodes report."""

FAILURES: Final = (SILENT, "NotReady", *CONDITIONS[:3])
LONGEST: Final = 1e9


class PretendError(ValueError):
    """A file or value that makes no sense; the message is one line that names the field."""


class PretendSpan(NamedTuple):
    """Seconds, drawn evenly from a range."""

    low: float
    high: float

    def draw(self, rng: Random) -> float:
        return self.low if self.low == self.high else rng.uniform(self.low, self.high)


def span_of(value: str | float) -> PretendSpan:
    """Seconds from a number, or from a range such as `2-5`. Raises PretendError."""
    try:
        if isinstance(value, str) and "-" in value[1:]:
            low, _, high = value.partition("-")
            span = PretendSpan(float(low), float(high))
        else:
            span = PretendSpan(float(value), float(value))
    except ValueError:
        span = PretendSpan(-1, -1)
    if not 0 <= span.low <= span.high <= LONGEST:
        raise PretendError(f"expected seconds such as 5 or a range such as 2-5, got {value!r}")
    return span


def _exit_code_of(value: str | float) -> int:
    try:
        code = int(value)
    except ValueError:
        code = -1
    if not 0 <= code <= 255:
        raise PretendError(f"expected an exit code from 0 to 255, got {value!r}")
    return code


def _probability_of(value: str | float) -> float:
    try:
        probability = float(value)
    except ValueError:
        probability = -1.0
    if not 0 <= probability <= 1:
        raise PretendError(f"expected a probability from 0 to 1, got {value!r}")
    return probability


class StartFailure(NamedTuple):
    """How a container fails to start: the reason that its status has, and the event of the kubelet."""

    reason: str
    message: str
    event: str
    note: str


_START_FAILURES: Final = (
    StartFailure(
        "ErrImagePull",
        "failed to pull and unpack image {image}: not found",
        "Failed",
        "Failed to pull image {image}: not found",
    ),
    StartFailure(
        "ImagePullBackOff",
        "Back-off pulling image {image}",
        "BackOff",
        "Back-off pulling image {image}",
    ),
    StartFailure(
        "InvalidImageName",
        "couldn't parse image name {image}: invalid reference format",
        "InspectFailed",
        "Failed to apply default image tag {image}: couldn't parse image name: invalid reference format",
    ),
    StartFailure(
        "CreateContainerConfigError",
        "the configuration of container {container} cannot be read",
        "Failed",
        "Error: the configuration of container {container} cannot be read",
    ),
    StartFailure(
        "CreateContainerError",
        "container {container} cannot be created",
        "Failed",
        "Error: container {container} cannot be created",
    ),
    StartFailure(
        "FailedMount",
        "",
        "FailedMount",
        "Unable to attach or mount volumes: unmounted volumes=[{volumes}]: "
        "timed out waiting for the condition",
    ),
    StartFailure(
        "FailedAttachVolume",
        "",
        "FailedAttachVolume",
        "AttachVolume.Attach failed for volume {volumes}: rpc error: code = DeadlineExceeded",
    ),
)
"""Failures that a pod can be told to have, with texts like those of a kubelet."""


def _start_failure_of(value: str | float) -> StartFailure | None:
    """A failure by its reason; one may follow its own message after a colon. Raises PretendError."""
    reason, colon, message = str(value).partition(":")
    if reason == "false":
        return None
    found = next((one for one in _START_FAILURES if one.reason == reason), None)
    if found is None:
        raise PretendError(
            f"expected one of {', '.join(one.reason for one in _START_FAILURES)}, got {value!r}"
        )
    if not colon:
        return found
    own = message.strip()
    return found._replace(message=found.message and own, note=own)


def _pull_mode_of(value: str | float) -> PullMode:
    try:
        return PullMode(str(value))
    except ValueError:
        raise PretendError(f"expected one of {', '.join(PullMode)}, got {value!r}") from None


def _probe_passes(value: str | float) -> bool:
    if value not in ("pass", "fail"):
        raise PretendError(f"expected pass or fail, got {value!r}")
    return value == "pass"


def _outcome_code(value: str | float) -> int:
    codes = {"Succeeded": 0, "Failed": 1}
    if value not in codes:
        raise PretendError(f"expected Succeeded or Failed, got {value!r}")
    return codes[str(value)]


# Pods


@dataclass(frozen=True, slots=True)
class PodBehaviour:
    """Behaviour of a pod, in seconds.

    `start` is from being bound to running, `ready` from running to ready, `stop` the duration of a deleted
    pod's termination. `run` is the run time of its containers before they end by themselves; `ends` tells if
    that was requested: if not, a pod whose containers are always restarted runs for ever. A run ends with
    `exit_code`, or at random with 0 if there is a `failure_probability`. With a `start_failure` no container
    ever starts. `image_pull` is the result of image pulls, `readiness`, `liveness` and `startup` those of
    probes; None is not pretended.
    """

    start: PretendSpan
    ready: PretendSpan
    run: PretendSpan
    stop: PretendSpan
    ends: bool = False
    exit_code: int | None = None
    failure_probability: float | None = None
    start_failure: StartFailure | None = None
    image_pull: PullMode | None = None
    readiness: bool | None = None
    liveness: bool | None = None
    startup: bool | None = None

    @property
    def probes(self) -> dict[str, bool]:
        """Kinds of probes whose result is pretended."""
        found = {kind: getattr(self, kind) for kind in PROBE_KINDS}
        return {kind: passes for kind, passes in found.items() if passes is not None}

    def draw_exit_code(self, rng: Random) -> int:
        """How a run ends."""
        if self.failure_probability is None:
            return self.exit_code or 0
        return (self.exit_code or 1) if rng.random() < self.failure_probability else 0


_Read = tuple[str, Callable[[str | float], Any]]

_POD_FIELDS: Final[Mapping[str, _Read]] = {
    "start-seconds": ("start", span_of),
    "ready-seconds": ("ready", span_of),
    "run-seconds": ("run", span_of),
    "stop-seconds": ("stop", span_of),
    "outcome": ("exit_code", _outcome_code),
    "exit-code": ("exit_code", _exit_code_of),
    "failure-probability": ("failure_probability", _probability_of),
    "start-failure": ("start_failure", _start_failure_of),
    "image-pull": ("image_pull", _pull_mode_of),
    "readiness-probe": ("readiness", _probe_passes),
    "liveness-probe": ("liveness", _probe_passes),
    "startup-probe": ("startup", _probe_passes),
}
"""Annotations of pods by what follows the prefix: the field they set, and how they are read."""

_ENDINGS: Final = frozenset(("run", "exit_code", "failure_probability"))
_OF_OTHERS: Final = (CPU_USAGE, MEMORY_USAGE)
"""Annotations of pods that are not about what their kubelet does."""

POD_ANNOTATIONS: Final = (*(f"{PREFIX}{name}" for name in _POD_FIELDS), *_OF_OTHERS)
NODE_ANNOTATIONS: Final = (FAIL, HEARTBEAT, IMAGE_PULL)


def _with_fields(behaviour: PodBehaviour, fields: Mapping[str, Any]) -> PodBehaviour:
    if not fields:
        return behaviour
    return replace(behaviour, **fields, ends=behaviour.ends or not _ENDINGS.isdisjoint(fields))


class PretendProblem(NamedTuple):
    """An annotation that cannot be read."""

    annotation: str
    message: str


def pod_behaviour(
    pod: Json, pretend: "Pretend", default: PodBehaviour
) -> tuple[PodBehaviour, list[PretendProblem]]:
    """How a pod behaves, and which of its annotations cannot be read."""
    rule = _first(pretend.pods, pod)
    run = run_of(pod) if pretend.follow_commands else None
    if run is not None:
        default = replace(
            default, run=PretendSpan(run.seconds, run.seconds), exit_code=run.exit_code, ends=True
        )
    behaviour = default if rule is None else _with_fields(default, rule.fields)
    fields: dict[str, Any] = {}
    problems: list[PretendProblem] = []
    for key, value in annotations_of(pod).items():
        if key.startswith(PREFIX) and key not in _OF_OTHERS:
            known = _POD_FIELDS.get(key.removeprefix(PREFIX))
            try:
                if known is None:
                    raise PretendError(
                        f"there is no such annotation of pods; there is {', '.join(_POD_FIELDS)}"
                    )
                fields[known[0]] = known[1](value)
            except PretendError as error:
                problems.append(PretendProblem(key, str(error)))
    usage, _, message = usage_problem(annotations_of(pod)).partition(": ")
    if usage:
        problems.append(PretendProblem(usage, message))
    return _with_fields(behaviour, fields), problems


# Nodes


class Window(NamedTuple):
    """Failure of a node: seconds after its creation, duration, repetition, and kind."""

    after: float
    seconds: float
    every: float
    failure: str


@dataclass(frozen=True, slots=True)
class NodeBehaviour:
    """Behaviour of a node. `failure` is its current failure, "" for none; None if no annotation sets it.

    `image_pull` is the result of its image pulls.
    """

    heartbeat: float = 10.0
    windows: tuple[Window, ...] = ()
    failure: str | None = None
    image_pull: PullMode | None = None

    def failure_at(self, age: float) -> str:
        """How the node fails at a time after it came."""
        if self.failure is not None:
            return self.failure
        return next((one.failure for one in self.windows if _is_within(one, age)), "")

    def next_change(self, age: float) -> float:
        """Seconds until a window begins or ends."""
        if self.failure is not None or not self.windows:
            return LONGEST
        return min(_until_change(one, age) for one in self.windows)


def _is_within(window: Window, age: float) -> bool:
    return age >= window.after and _phase(window, age) < window.seconds


def _phase(window: Window, age: float) -> float:
    since = age - window.after
    return since % window.every if window.every else since


def _until_change(window: Window, age: float) -> float:
    if age < window.after:
        return window.after - age
    phase = _phase(window, age)
    if phase < window.seconds:
        return window.seconds - phase
    return window.every - phase if window.every else LONGEST


def failure_of(value: str) -> str:
    """The failure that an annotation asks for, "" for none. Raises PretendError."""
    named = {"true": SILENT, "false": "", "": "", **{name.lower(): name for name in FAILURES}}
    found = named.get(value.lower())
    if found is None:
        raise PretendError(f"expected true, false or one of {', '.join(FAILURES)}, got {value!r}")
    return found


def unwell_in(failure: str) -> frozenset[str]:
    """The conditions that are bad in a failure."""
    if failure == "NotReady":
        return frozenset(("Ready",))
    return frozenset((failure,)) if failure in CONDITIONS else frozenset()


def node_behaviour(
    node: Json, pretend: "Pretend", heartbeat: float
) -> tuple[NodeBehaviour, list[PretendProblem]]:
    """How a node behaves, and which of its annotations cannot be read."""
    rule = _first(pretend.nodes, node)
    behaviour = replace(NodeBehaviour(heartbeat), **({} if rule is None else rule.fields))
    annotations, problems = annotations_of(node), []
    try:
        if FAIL in annotations:
            behaviour = replace(behaviour, failure=failure_of(annotations[FAIL]))
    except PretendError as error:
        problems.append(PretendProblem(FAIL, str(error)))
    try:
        if HEARTBEAT in annotations:
            behaviour = replace(behaviour, heartbeat=span_of(annotations[HEARTBEAT]).low or heartbeat)
    except PretendError as error:
        problems.append(PretendProblem(HEARTBEAT, str(error)))
    try:
        if IMAGE_PULL in annotations:
            behaviour = replace(behaviour, image_pull=_pull_mode_of(annotations[IMAGE_PULL]))
    except PretendError as error:
        problems.append(PretendProblem(IMAGE_PULL, str(error)))
    return behaviour, problems


# The file


@dataclass(frozen=True, slots=True)
class PretendRule:
    """Selector of objects, and the fields of their behaviour that it sets."""

    selector: Selector
    namespaces: frozenset[str]
    fields: Mapping[str, Any]

    def selects(self, obj: Json) -> bool:
        if self.namespaces and namespace_of(obj) not in self.namespaces:
            return False
        return self.selector.matches(labels_of(obj))


@dataclass(frozen=True, slots=True)
class PretendBackoff:
    """How long a container waits to be restarted: first not at all, then `initial`, then twice as long."""

    initial: float = 10.0
    most: float = 300.0

    def after(self, crashes: int) -> float:
        """Seconds before the restart after this number of crashes."""
        return 0.0 if crashes <= 1 else min(self.initial * 2.0 ** min(crashes - 2, 30), self.most)


@dataclass(frozen=True, slots=True)
class Pretend:
    """The rules of a file, in order. `follow_commands`: commands that only sleep or exit do so."""

    pods: tuple[PretendRule, ...] = ()
    nodes: tuple[PretendRule, ...] = ()
    backoff: PretendBackoff = field(default_factory=PretendBackoff)
    follow_commands: bool = False


def _first(rules: tuple[PretendRule, ...], obj: Json) -> PretendRule | None:
    return next((rule for rule in rules if rule.selects(obj)), None)


class _PodRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    selector: LabelSelector = LabelSelector()
    namespaces: tuple[str, ...] = ()
    start_seconds: float | str | None = None
    ready_seconds: float | str | None = None
    run_seconds: float | str | None = None
    stop_seconds: float | str | None = None
    outcome: str | None = None
    exit_code: int | None = None
    failure_probability: float | None = None
    start_failure: str | None = None
    image_pull: str | None = None
    readiness_probe: str | None = None
    liveness_probe: str | None = None
    startup_probe: str | None = None


class _Window(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    after_seconds: float
    for_seconds: float
    every_seconds: float = 0.0
    failure: str = "NotReady"


class _NodeRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    selector: LabelSelector = LabelSelector()
    heartbeat_seconds: float | None = None
    failures: tuple[_Window, ...] | None = None
    image_pull: str | None = None


class _Backoff(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    initial_seconds: float = 10.0
    max_seconds: float = 300.0


class _File(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    pods: tuple[_PodRule, ...] = ()
    nodes: tuple[_NodeRule, ...] = ()
    crash_loop_back_off: _Backoff = _Backoff()
    follow_commands: bool = False


_FileRule = TypeVar("_FileRule", _PodRule, _NodeRule)


def read_pretend(path: Path) -> Pretend:
    """The rules in a YAML or JSON file. Raises PretendError."""
    try:
        data = load_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PretendError(f"{path}: {error.strerror}") from None
    except (TextError, UnicodeDecodeError) as error:
        raise PretendError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    try:
        return pretend_of({} if data is None else data)
    except PretendError as error:
        raise PretendError(f"{path}: {error}") from None


def pretend_of(data: Any) -> Pretend:
    """Rules from plain data. Raises PretendError."""
    try:
        file = msgspec.convert(data, _File)
    except msgspec.ValidationError as error:
        text, _, place = str(error).partition(" - at `$")
        where = place.removesuffix("`").lstrip(".") or "file"
        raise PretendError(f"{where}: {text[:1].lower()}{text[1:]}") from None
    waiting = file.crash_loop_back_off
    if not 0 <= waiting.initial_seconds <= waiting.max_seconds:
        raise PretendError("crashLoopBackOff: expected initialSeconds from 0 to maxSeconds")
    return Pretend(
        tuple(_numbered("pods", number, rule, _pod_rule) for number, rule in enumerate(file.pods)),
        tuple(_numbered("nodes", number, rule, _node_rule) for number, rule in enumerate(file.nodes)),
        PretendBackoff(waiting.initial_seconds, waiting.max_seconds),
        file.follow_commands,
    )


def _numbered(
    part: str, number: int, rule: _FileRule, read: Callable[[_FileRule], PretendRule]
) -> PretendRule:
    try:
        return read(rule)
    except (PretendError, SelectorError) as error:
        raise PretendError(f"{part}[{number}].{error}") from None


def _selector(selector: LabelSelector) -> Selector:
    try:
        return EVERYTHING if selector == LabelSelector() else compile_selector(selector)
    except SelectorError as error:
        raise PretendError(f"selector: {error}") from None


def _pod_rule(rule: _PodRule) -> PretendRule:
    fields: dict[str, Any] = {}
    for name, (target, read) in _POD_FIELDS.items():
        value = getattr(rule, name.replace("-", "_"))
        if value is not None:
            fields[target] = _read(_camel(name), read, value)
    return PretendRule(_selector(rule.selector), frozenset(rule.namespaces), fields)


def _node_rule(rule: _NodeRule) -> PretendRule:
    fields: dict[str, Any] = {}
    if rule.heartbeat_seconds is not None:
        if not 0 < rule.heartbeat_seconds <= LONGEST:
            raise PretendError(f"heartbeatSeconds: expected more than 0, got {rule.heartbeat_seconds}")
        fields["heartbeat"] = rule.heartbeat_seconds
    if rule.failures is not None:
        fields["windows"] = tuple(_window(number, one) for number, one in enumerate(rule.failures))
    if rule.image_pull is not None:
        fields["image_pull"] = _read("imagePull", _pull_mode_of, rule.image_pull)
    return PretendRule(_selector(rule.selector), frozenset(), fields)


def _window(number: int, one: _Window) -> Window:
    place = f"failures[{number}]"
    failure = _read(f"{place}.failure", lambda value: failure_of(str(value)), one.failure)
    if one.after_seconds < 0 or one.for_seconds <= 0:
        raise PretendError(f"{place}: expected afterSeconds of at least 0 and forSeconds above 0")
    if one.every_seconds and one.every_seconds <= one.for_seconds:
        raise PretendError(f"{place}.everySeconds: expected more than forSeconds, got {one.every_seconds:g}")
    return Window(one.after_seconds, one.for_seconds, one.every_seconds, failure or SILENT)


def _read(place: str, read: Callable[[str | float], Any], value: str | float) -> Any:
    try:
        return read(value)
    except PretendError as error:
        raise PretendError(f"{place}: {error}") from None


def _camel(name: str) -> str:
    first, *rest = name.split("-")
    return first + "".join(word.capitalize() for word in rest)
