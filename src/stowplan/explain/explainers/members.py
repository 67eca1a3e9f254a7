"""A pod and its group: no member gets a node before the group does."""

from collections.abc import Callable, Generator

from msgspec.structs import replace

from stowplan.api.pod import Pod
from stowplan.explain.document.group import GroupDocument
from stowplan.explain.document.pod import PodDocument
from stowplan.explain.sentences.pod import told_pod
from stowplan.explain.states import FITS, PENDING
from stowplan.scheduler.table.pod_groups import PodGroups


def group_of_pod(
    groups: PodGroups, pod: Pod, steps: Callable[[str], Generator[None, None, GroupDocument | None]]
) -> Generator[None, None, GroupDocument | None]:
    """The group that a pod without a node waits for: its own, or that at the top of its tree if its own could
    be placed. `steps` explains a group by its key."""
    key = None if pod.spec.node_name else groups.key_of(pod)
    if key is None:
        return None
    found = yield from steps(key)
    root = groups.root_of(pod)
    if found is not None and root not in (None, key) and not found.is_waiting:
        found = (yield from steps(str(root))) or found
    return found


def as_member(found: PodDocument, group: GroupDocument | None) -> PodDocument:
    """The document about a pod without a node, with its group in short.

    A member that would fit alone still waits if its group does.
    """
    if group is None:
        return found
    found = replace(found, group=group.in_short())
    if found.state == FITS and group.is_waiting:
        found = replace(found, state=PENDING, message=group.headline)
    return told_pod(found)
