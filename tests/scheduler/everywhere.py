"""A plugin as a user would write it, at every extension point, with its own event source.

Every pod labelled `ticket` needs a Ticket object of that name. It is let into the queue, filtered, scored and
so on by a plugin that notes its calls.
"""

from typing import Any

from stowplan.scheduler.framework.events import Action, ClusterEvent, EventRegistration, Hint, queue_if
from stowplan.scheduler.framework.interface import Plugin, PostFilterResult
from stowplan.scheduler.framework.status import SKIP, Status, unschedulable

TICKETS = "tickets.v1.example.com"


class Everywhere(Plugin):
    def __init__(self, args: Any, handle: Any) -> None:
        super().__init__(args, handle)
        self.log: list[str] = []
        self.closed = False

    def events(self) -> list[EventRegistration]:
        return [EventRegistration(ClusterEvent(TICKETS, Action.ADD), self.after_ticket)]

    def after_ticket(self, pod: Any, old: Any, new: Any) -> Hint:
        return queue_if(new.metadata.name == pod.labels.get("ticket"))

    def pre_enqueue(self, pod: Any) -> Status | None:
        self.log.append("pre_enqueue")
        return unschedulable("locked out") if pod.labels.get("locked") == "yes" else None

    def sort_key(self, queued: Any) -> tuple[str]:
        return (queued.pod.name,)

    def pre_filter(self, cycle: Any, pod: Any) -> None:
        self.log.append("pre_filter")
        cycle.write(self, {"prefiltered": pod.name})

    def filter_node(self, cycle: Any, pod: Any, node: Any) -> Status | None:
        self.log.append(f"filter_node {node.name}")
        assert cycle.read(self) == {"prefiltered": pod.name}
        wanted = pod.labels.get("ticket")
        return unschedulable("no ticket") if wanted and wanted not in self.args["valid"] else None

    def post_filter(self, cycle: Any, pod: Any) -> PostFilterResult:
        self.log.append("post_filter")
        return PostFilterResult(unschedulable("nothing to be done"))

    def pre_score(self, cycle: Any, pod: Any) -> None:
        self.log.append("pre_score")

    def score_node(self, cycle: Any, pod: Any, node: Any) -> int:
        self.log.append(f"score_node {node.name}")
        return 100 if node.name == "favourite" else 0

    def reserve(self, cycle: Any, pod: Any, node: str) -> None:
        self.log.append(f"reserve {node}")

    def unreserve(self, cycle: Any, pod: Any, node: str) -> None:
        self.log.append(f"unreserve {node}")

    def permit(self, cycle: Any, pod: Any, node: str) -> None:
        self.log.append(f"permit {node}")

    def pre_bind_pre_flight(self, cycle: Any, pod: Any, node: str) -> None:
        self.log.append(f"pre_bind_pre_flight {node}")

    async def pre_bind(self, cycle: Any, pod: Any, node: str) -> None:
        self.log.append(f"pre_bind {node}")

    async def bind(self, cycle: Any, pod: Any, node: str) -> Status | None:
        self.log.append(f"bind {node}")
        return SKIP

    def post_bind(self, cycle: Any, pod: Any, node: str) -> None:
        self.log.append(f"post_bind {node}")

    def close(self) -> None:
        self.closed = True
