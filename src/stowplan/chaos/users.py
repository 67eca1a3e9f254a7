"""What people and other programs do to the cluster in a run. They write to the store directly."""

from collections.abc import Callable, Set

from stowplan.api.catalogue import NODES, POD_DISRUPTION_BUDGETS, PODS
from stowplan.api.requests import DeleteOptions, Json, PatchType
from stowplan.api.status import ApiError
from stowplan.chaos.objects import TAINT
from stowplan.chaos.plan import NAMESPACE, Action, Body
from stowplan.chaos.storageusers import StorageUsers
from stowplan.chaos.world import World


class Users:
    """Carries out actions. What the store refuses is left at that: people make mistakes."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._store = world.store
        self._doing: dict[str, Callable[[str, Body], object]] = {
            "create-pod": self._create_pod,
            "recreate-pod": self._recreate_pod,
            "delete-pod": self._delete_pod,
            "label-pod": self._label_pod,
            "tolerate": self._tolerate,
            "ungate": self._ungate,
            "finish": self._finish,
            "bind-pod": self._bind_pod,
            "put-node": self._put_node,
            "delete-node": self._delete_node,
            "cordon": lambda name, body: self._set_node(name, {"spec": {"unschedulable": True}}),
            "uncordon": lambda name, body: self._set_node(name, {"spec": {"unschedulable": None}}),
            "taint": lambda name, body: self._set_node(name, {"spec": {"taints": [body]}}),
            "untaint": lambda name, body: self._set_node(name, {"spec": {"taints": None}}),
            "label-node": lambda name, body: self._set_node(name, {"metadata": {"labels": body}}),
            "beat": self._beat,
            "resize": self._resize,
            "put-budget": self._put_budget,
            **StorageUsers(world.store).doing,
        }

    @property
    def can_do(self) -> Set[str]:
        """The kinds of actions that are theirs; the others are done to the scheduler itself."""
        return self._doing.keys()

    def do(self, action: Action) -> None:
        self._world.note(f"do {action.what} {action.name}")
        try:
            self._doing[action.what](action.name, action.body)
        except ApiError as refusal:
            self._world.note(f"refused: {refusal.message}")

    def release_all(self) -> None:
        """Nobody holds any pod by a finalizer any more."""
        for pod in self._store.list(PODS).items:
            if pod["metadata"].get("finalizers"):
                patch = {"metadata": {"finalizers": None}}
                self._store.patch(PODS, NAMESPACE, pod["metadata"]["name"], patch, PatchType.MERGE)

    # Pods

    def _create_pod(self, name: str, body: Body) -> None:
        self._store.create(PODS, body)

    def _recreate_pod(self, name: str, body: Body) -> None:
        """Another pod takes a pod's name, at once if that can be."""
        if any(pod["metadata"]["name"] == name for pod in self._store.list(PODS).items):
            self._delete_pod(name, {"grace": 0})
        self._create_pod(name, body)

    def _delete_pod(self, name: str, body: Body) -> None:
        self._store.delete(PODS, NAMESPACE, name, DeleteOptions(grace_period_seconds=body["grace"]))

    def _label_pod(self, name: str, body: Body) -> None:
        self._set_pod(name, {"metadata": {"labels": body}})

    def _tolerate(self, name: str, body: Body) -> None:
        had = self._store.get(PODS, NAMESPACE, name)["spec"].get("tolerations", ())
        self._set_pod(name, {"spec": {"tolerations": [*had, {"key": TAINT, "operator": "Exists"}]}})

    def _ungate(self, name: str, body: Body) -> None:
        self._set_pod(name, {"spec": {"schedulingGates": None}})

    def _finish(self, name: str, body: Body) -> None:
        """Only what runs can end."""
        pod = self._store.get(PODS, NAMESPACE, name)
        if pod["spec"].get("nodeName") and pod["status"]["phase"] in ("Pending", "Running"):
            patch = {"status": body}
            self._store.patch(PODS, NAMESPACE, name, patch, PatchType.MERGE, subresource="status")

    def _bind_pod(self, name: str, body: Body) -> None:
        """Somebody else binds the pod, whoever's it is."""
        self._store.bind(NAMESPACE, name, {"metadata": {"name": name}, "target": {"name": body["node"]}})

    def _set_pod(self, name: str, patch: Json) -> None:
        self._store.patch(PODS, NAMESPACE, name, patch, PatchType.MERGE)

    # Nodes

    def _put_node(self, name: str, body: Body) -> None:
        """The node joins; if it is there already, it is another one from now on."""
        if any(node["metadata"]["name"] == name for node in self._store.list(NODES).items):
            self._store.delete(NODES, "", name)
        self._store.create(NODES, body)

    def _delete_node(self, name: str, body: Body) -> None:
        self._store.delete(NODES, "", name)

    def _set_node(self, name: str, patch: Json) -> None:
        self._store.patch(NODES, "", name, patch, PatchType.MERGE)

    def _resize(self, name: str, body: Body) -> None:
        patch = {"status": {"allocatable": body}}
        self._store.patch(NODES, "", name, patch, PatchType.MERGE, subresource="status")

    def _beat(self, name: str, body: Body) -> None:
        """News of a node that mean nothing."""
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": f"{self._world.second:.3f}"}
        patch = {"status": {"conditions": [ready]}}
        self._store.patch(NODES, "", name, patch, PatchType.STRATEGIC, subresource="status")

    # Budgets

    def _put_budget(self, name: str, body: Body) -> None:
        """The budget of that name is this one, and allows one disruption."""
        known = [held["metadata"]["name"] for held in self._store.list(POD_DISRUPTION_BUDGETS).items]
        if name in known:
            self._store.delete(POD_DISRUPTION_BUDGETS, NAMESPACE, name)
        self._store.create(POD_DISRUPTION_BUDGETS, body)
        patch = {"status": {"disruptionsAllowed": 1}}
        self._store.patch(
            POD_DISRUPTION_BUDGETS, NAMESPACE, name, patch, PatchType.MERGE, subresource="status"
        )
