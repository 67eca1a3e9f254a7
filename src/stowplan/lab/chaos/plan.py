"""A plan: everything that will happen in a run, as plain data, made from a seed."""

from itertools import pairwise
from random import Random
from typing import Final

import msgspec

from stowplan.lab.chaos import deviceobjects, objects
from stowplan.lab.chaos.objects import Body
from stowplan.testing.builders import ZONE
from stowplan.testing.extenders import letters

PROFILES: Final = ("default-scheduler", "second")
"""The names of the profiles a run's scheduler can have."""

OTHER_SCHEDULER: Final = "other"
"""The schedulerName of pods that are not ours."""


class ChaosAction(msgspec.Struct, frozen=True):
    """Something a user or another program does: when, what, to which object, and with what body."""

    at: float
    what: str
    name: str = ""
    body: Body = {}


class FaultPhase(msgspec.Struct, frozen=True):
    """The faults injected between two moments.

    Faults of the API server are those of `stowplan.testing.faults.Faults`. `plugins` and `extenders` are the
    probabilities that one fails, rejects or is slow when called. Provisioning a volume takes
    `provision_delay` seconds and fails with probability `provision_failures`; requests of the volume
    controllers take up to `controllers` seconds.
    """

    start: float
    end: float
    refused: float = 0.0
    lost: float = 0.0
    cut: float = 0.0
    forgotten: float = 0.0
    lifetime: float | None = None
    delay: float = 0.0
    plugins: float = 0.0
    extenders: float = 0.0
    provision_delay: float = 0.5
    provision_failures: float = 0.0
    controllers: float = 0.0


class StoragePlan(msgspec.Struct, frozen=True):
    """A run with volumes: `bindTimeoutSeconds` of VolumeBinding."""

    bind_timeout: int


class ExtenderPlan(msgspec.Struct, frozen=True):
    """An extender: the calls it takes part in, and the salt of the rule by which it rejects nodes."""

    name: str
    salt: int
    ignorable: bool = False
    filters: bool = True
    binds: bool = False
    preempts: bool = False

    def is_interested(self, pod: str) -> bool:
        return letters(pod) % 4 != 0

    def accepts(self, pod: str, node: str) -> bool:
        """The rule by which the extender keeps nodes."""
        return not self.filters or (letters(node) + letters(pod) + self.salt) % 5 != 0


class ChaosPlan(msgspec.Struct, frozen=True):
    """One run. Every random generator used during the run is derived from `seed`.

    No faults are injected after `end`. `history` is how many changes the store keeps for watches that
    resume, `buffer` how far a watch may lag behind. `faulty_profiles` have the plugin that fails. Without
    `storage` no pod has volumes, without `devices` none has resource claims, and their controllers do not
    run. With `groups` there are pod groups (1.37).
    """

    seed: int
    end: float
    history: int
    buffer: int
    profiles: tuple[str, ...]
    faulty_profiles: tuple[str, ...]
    extenders: tuple[ExtenderPlan, ...]
    phases: tuple[FaultPhase, ...]
    actions: tuple[ChaosAction, ...]
    storage: StoragePlan | None = None
    devices: bool = False
    groups: bool = False

    def text(self) -> str:
        """The plan in readable form: its settings, then one line per action."""
        rest = msgspec.structs.replace(self, actions=())
        lines = [msgspec.json.encode(rest).decode()]
        for action in self.actions:
            lines.append(f"{action.at:8.3f}  {action.what} {action.name} {_short(action.body)}".rstrip())
        return "\n".join(lines)


def _short(body: Body) -> str:
    return msgspec.json.encode(body).decode() if body else ""


WITH_VOLUMES: Final = 0.4
"""The share of plans with volumes."""
WITH_DEVICES: Final = 0.4
"""The share of plans with devices."""

_UPDATES = ("label-pod", "label-pod", "tolerate", "ungate", "ungate", "finish")
_NODE_CHANGES = (
    "cordon",
    "uncordon",
    "uncordon",
    "taint",
    "untaint",
    "untaint",
    "label-node",
    "resize",
    "resize",
    "beat",
    "delete-node",
    "put-node",
    "put-node",
)


def make_plan(rng: Random, seed: int, *, claims: bool = False) -> ChaosPlan:
    """A random plan. `seed` is that of the run; with `claims` it has devices for any seed."""
    end = rng.choice((20.0, 40.0, 90.0))
    profiles = PROFILES if rng.random() < 0.4 else PROFILES[:1]
    plan = ChaosPlan(
        seed=seed,
        end=end,
        history=rng.choice((3, 20, 8192, 8192)),
        buffer=rng.choice((3, 50, 8192)),
        profiles=profiles,
        faulty_profiles=tuple(name for name in profiles if rng.random() < 0.6),
        extenders=_extenders(rng),
        phases=_fault_phases(rng, end),
        actions=_ActionMaker(rng, end, profiles).all(),
    )
    plan = _with_volumes(rng, plan) if rng.random() < WITH_VOLUMES else plan
    # The number is drawn in any case, so that a seed gives the same devices with and without `claims`.
    has_devices = rng.random() < WITH_DEVICES
    return _with_devices(rng, plan) if has_devices or claims else plan


def _extenders(rng: Random) -> tuple[ExtenderPlan, ...]:
    if rng.random() < 0.7:
        return ()
    return tuple(
        ExtenderPlan(
            name=f"extender-{number}",
            salt=rng.randrange(100),
            ignorable=rng.random() < 0.4,
            filters=rng.random() < 0.8,
            binds=rng.random() < 0.3,
            preempts=rng.random() < 0.5,
        )
        for number in range(rng.choice((1, 1, 2)))
    )


def _fault_phases(rng: Random, end: float) -> tuple[FaultPhase, ...]:
    """Up to three phases in a row, some of them without faults."""
    moments = sorted(_moment(rng, end) for _ in range(rng.choice((0, 1, 2))))
    borders = [0.0, *moments, end]
    return tuple(_fault_phase(rng, start, until) for start, until in pairwise(borders) if start < until)


def _fault_phase(rng: Random, start: float, end: float) -> FaultPhase:
    def chance(highest: float) -> float:
        return round(rng.random() * highest, 3) if rng.random() < 0.5 else 0.0

    return FaultPhase(
        start=start,
        end=end,
        refused=chance(0.5),
        lost=chance(0.5),
        cut=chance(0.4),
        forgotten=chance(0.3),
        lifetime=rng.choice((None, None, 0.3, 3.0)),
        delay=rng.choice((0.0, 0.0, 0.05, 1.0, 6.0)),
        plugins=chance(1.2),
        extenders=chance(0.8),
    )


def _moment(rng: Random, end: float) -> float:
    return round(rng.random() * end, 3)


class _ActionMaker:
    """Makes the actions on nodes, pods and budgets."""

    def __init__(self, rng: Random, end: float, profiles: tuple[str, ...]) -> None:
        self._rng = rng
        self._end = end
        self._profiles = profiles
        self._nodes = [f"node-{number}" for number in range(rng.randrange(3, 9))]
        self._pods = [f"pod-{number:02}" for number in range(rng.randrange(10, 31))]
        self._actions: list[ChaosAction] = []

    def all(self) -> tuple[ChaosAction, ...]:
        for node in self._nodes:
            self._add(self._early(0.8), "put-node", node, objects.random_node(self._rng, node))
        for pod in self._pods:
            self._add(self._early(0.4), "create-pod", pod, self._pod(pod))
        for _ in range(self._rng.randrange(5, 75)):
            self._add_incident()
        return tuple(sorted(self._actions, key=lambda action: action.at))

    def _add(self, at: float, what: str, name: str = "", body: Body | None = None) -> None:
        self._actions.append(ChaosAction(at, what, name, body or {}))

    def _early(self, share: float) -> float:
        """Before the scheduler starts, or a random moment later."""
        return 0.0 if self._rng.random() < share else self._later()

    def _later(self) -> float:
        return _moment(self._rng, self._end)

    def _pod(self, name: str) -> Body:
        rng = self._rng
        outside = rng.random() < 0.1
        body = objects.random_pod(rng, name, OTHER_SCHEDULER if outside else rng.choice(self._profiles))
        if outside and rng.random() < 0.7:
            body["spec"]["nodeName"] = rng.choice(self._nodes)
        return body

    def _add_incident(self) -> None:
        rng = self._rng
        kind = rng.randrange(20)
        if kind < 5:
            self._change_node()
        elif kind < 9:
            self._change_pod()
        elif kind < 12:
            self._add(
                self._later(), "delete-pod", rng.choice(self._pods), {"grace": rng.choice((None, None, 0, 3))}
            )
        elif kind < 14:
            name = rng.choice(self._pods)
            self._add(self._later(), "recreate-pod", name, self._pod(name))
        elif kind < 16:
            self._add(self._later(), "bind-pod", rng.choice(self._pods), {"node": rng.choice(self._nodes)})
        elif kind < 17:
            self._add(self._later(), "hang-up")
        elif kind < 18:
            self._add(self._later(), "restart")
        else:
            name = f"budget-{rng.randrange(3)}"
            self._add(self._later(), "put-budget", name, objects.random_budget(rng, name))

    def _change_pod(self) -> None:
        rng = self._rng
        what, name = rng.choice(_UPDATES), rng.choice(self._pods)
        body: Body = {}
        if what == "label-pod":
            body = {"app": rng.choice(objects.APPS)}
        elif what == "finish":
            body = {"phase": rng.choice(("Running", "Succeeded", "Failed"))}
        self._add(self._later(), what, name, body)

    def _change_node(self) -> None:
        rng = self._rng
        what, name = rng.choice(_NODE_CHANGES), rng.choice(self._nodes)
        body: Body = {}
        if what == "put-node":
            body = objects.random_node(rng, name)
        elif what == "taint":
            body = objects.random_taint(rng)
        elif what == "label-node":
            body = rng.choice(({ZONE: rng.choice(objects.ZONES)}, {"disk": rng.choice(objects.DISKS)}))
        elif what == "resize":
            body = objects.random_allocatable(rng)
        self._add(self._later(), what, name, body)


_CREATING: Final = ("create-pod", "recreate-pod")
_POD_SHARE: Final = 0.6
"""The share of pods that have volumes."""


def _with_volumes(rng: Random, plan: ChaosPlan) -> ChaosPlan:
    """The same plan with storage objects, and claims for some of its pods."""
    maker = _StorageActionMaker(rng, plan)
    return msgspec.structs.replace(
        plan,
        storage=StoragePlan(bind_timeout=rng.choice((2, 5, 15))),
        phases=tuple(_with_storage_faults(rng, phase) for phase in plan.phases),
        actions=maker.all(),
    )


def _with_storage_faults(rng: Random, phase: FaultPhase) -> FaultPhase:
    return msgspec.structs.replace(
        phase,
        provision_delay=rng.choice((0.0, 0.5, 3.0, 20.0)),
        provision_failures=rng.choice((0.0, 0.0, 0.3, 0.9)),
        controllers=rng.choice((0.0, 0.0, 0.3, 8.0)),
    )


class _StorageActionMaker:
    """Adds the actions on storage classes, volumes and claims."""

    def __init__(self, rng: Random, plan: ChaosPlan) -> None:
        self._rng = rng
        self._plan = plan
        self._nodes = sorted({action.name for action in plan.actions if action.what == "put-node"})
        self._claims = [f"claim-{number}" for number in range(rng.randrange(2, 9))]
        self._volumes = [f"disk-{number}" for number in range(rng.randrange(1, 8))]
        self._actions = [self._with_volumes(action) for action in plan.actions]

    def all(self) -> tuple[ChaosAction, ...]:
        rng = self._rng
        for body in objects.storage_classes(rng):
            self._add(self._early(0.9), "put-class", body)
        for volume in self._volumes:
            self._add(self._early(0.6), "put-volume", objects.random_volume(rng, volume, self._nodes))
        for claim in self._claims:
            self._add(self._early(0.6), "put-claim", objects.random_claim(rng, claim))
        for _ in range(rng.randrange(0, 16)):
            self._add_incident()
        return tuple(sorted(self._actions, key=lambda action: action.at))

    def _with_volumes(self, action: ChaosAction) -> ChaosAction:
        """The action, with volumes for the pod it creates if that is to have some."""
        if action.what not in _CREATING or self._rng.random() >= _POD_SHARE:
            return action
        spec = {**action.body["spec"], "volumes": objects.random_pod_volumes(self._rng, self._claims)}
        return msgspec.structs.replace(action, body={**action.body, "spec": spec})

    def _add_incident(self) -> None:
        rng = self._rng
        kind = rng.randrange(12)
        claim, volume = rng.choice(self._claims), rng.choice(self._volumes)
        if kind < 2:
            self._add(self._later(), "delete-claim", name=claim)
        elif kind < 4:
            self._add(self._later(), "put-claim", objects.random_claim(rng, claim))
        elif kind < 6:
            self._add(self._later(), "replace-claim", objects.random_claim(rng, claim))
        elif kind < 7:
            self._add(self._later(), "delete-volume", name=volume)
        elif kind < 8:
            self._add(self._later(), "drop-volume", name=volume)
        elif kind < 10:
            self._add(self._later(), "free-volume", name=volume)
        else:
            self._volumes.append(f"disk-{len(self._volumes)}")
            body = objects.random_volume(rng, self._volumes[-1], self._nodes)
            self._add(self._later(), "put-volume", body)

    def _add(self, at: float, what: str, body: Body | None = None, name: str = "") -> None:
        named = name or (body or {}).get("metadata", {}).get("name", "")
        self._actions.append(ChaosAction(at, what, named, body or {}))

    def _early(self, share: float) -> float:
        return 0.0 if self._rng.random() < share else self._later()

    def _later(self) -> float:
        return round(self._rng.random() * self._plan.end, 3)


_DEVICE_SHARE: Final = 0.7
"""The share of pods that ask for devices."""


def _with_devices(rng: Random, plan: ChaosPlan) -> ChaosPlan:
    """The same plan with devices, and claims for some of its pods."""
    return msgspec.structs.replace(
        plan,
        devices=True,
        phases=tuple(
            msgspec.structs.replace(phase, controllers=rng.choice((0.0, 0.0, 0.3, 8.0)))
            for phase in plan.phases
        ),
        actions=_DeviceActionMaker(rng, plan).all(),
    )


class _DeviceActionMaker:
    """Adds the actions on device classes, slices, templates and claims."""

    def __init__(self, rng: Random, plan: ChaosPlan) -> None:
        self._rng = rng
        self._end = plan.end
        nodes = sorted({action.name for action in plan.actions if action.what == "put-node"})
        self._pools = [*nodes, ""]
        self._templates = [f"template-{number}" for number in range(rng.randrange(1, 4))]
        self._claims = [f"common-{number}" for number in range(rng.randrange(1, 4))]
        self._actions = [self._with_devices(action) for action in plan.actions]

    def all(self) -> tuple[ChaosAction, ...]:
        rng = self._rng
        self._add(self._early(0.9), "put-device-class", deviceobjects.CLASS, deviceobjects.device_class())
        for pool in self._pools:
            if rng.random() < (0.8 if pool else 0.3):
                self._publish(self._early(0.7), pool)
        for name in self._templates:
            self._add(self._early(0.8), "put-template", name, deviceobjects.random_claim_template(rng, name))
        for name in self._claims:
            self._put_claim(self._early(0.7), name)
        for _ in range(rng.randrange(0, 16)):
            self._add_incident()
        return tuple(sorted(self._actions, key=lambda action: action.at))

    def _with_devices(self, action: ChaosAction) -> ChaosAction:
        """The action, with devices for the pod it creates if that is to have some."""
        if action.what not in _CREATING or self._rng.random() >= _DEVICE_SHARE:
            return action
        body = deviceobjects.with_devices(self._rng, action.body, self._templates, self._claims)
        return msgspec.structs.replace(action, body=body)

    def _add_incident(self) -> None:
        rng = self._rng
        kind = rng.randrange(13)
        if kind < 4:
            self._publish(self._later(), rng.choice(self._pools))
        elif kind < 5:
            self._add(self._later(), "delete-slices", rng.choice(self._pools) or "fabric")
        elif kind < 7:
            self._add(self._later(), "delete-resource-claim", rng.choice(self._claims))
        elif kind < 9:
            self._put_claim(self._later(), rng.choice(self._claims))
        elif kind < 10:
            self._add(self._later(), "delete-claim-of-pod", f"pod-{rng.randrange(30):02}")
        elif kind < 11:
            at = self._later()
            self._add(at, "delete-device-class", deviceobjects.CLASS)
            self._add(
                self._moment_after(at), "put-device-class", deviceobjects.CLASS, deviceobjects.device_class()
            )
        else:
            at, name = self._later(), f"rule-{rng.randrange(2)}"
            self._add(at, "put-taint-rule", name, deviceobjects.random_taint_rule(rng, name))
            if rng.random() < 0.7:
                self._add(self._moment_after(at), "delete-taint-rule", name)

    def _publish(self, at: float, pool: str) -> None:
        """New slices of a pool, of a later generation, in the place of those there are."""
        generation = 1 + round(at * 1000)
        slices = deviceobjects.random_slices(self._rng, pool, generation)
        self._add(at, "publish-slices", pool or "fabric", {"slices": slices})

    def _put_claim(self, at: float, name: str) -> None:
        body = deviceobjects.random_resource_claim(self._rng, name)
        self._add(at, "put-resource-claim", name, body)

    def _add(self, at: float, what: str, name: str, body: Body | None = None) -> None:
        self._actions.append(ChaosAction(at, what, name, body or {}))

    def _early(self, share: float) -> float:
        return 0.0 if self._rng.random() < share else self._later()

    def _later(self) -> float:
        return _moment(self._rng, self._end)

    def _moment_after(self, at: float) -> float:
        return round(at + self._rng.random() * (self._end - at), 3)
