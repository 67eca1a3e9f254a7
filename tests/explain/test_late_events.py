"""The words of kubelets and provisioners: events about a pod on its node, and about its claims."""

import asyncio
from collections.abc import Sequence
from typing import Any

from stowplan.api.catalogue import Resource
from stowplan.api.decode import convert
from stowplan.api.meta import Object
from stowplan.api.pod import Pod
from stowplan.api.storage import PersistentVolumeClaim, StorageClass
from stowplan.api.writes import Event
from stowplan.explain.document.layers import Stage
from stowplan.explain.layers.late import Events, EventsOfMany, EventsOfOne, late_events
from stowplan.explain.layers.reads import DumpReads
from stowplan.explain.layers.starting import late_stages
from stowplan.scheduler.table.table import ClusterTable

NODES_UNREAD = {"nodes": "the dump has no nodes"}


class CountedReads(DumpReads):
    """Reads that count the lists."""

    lists = 0

    async def list(self, resource: Resource, cls: Any, namespace: str = "", **fields: str) -> Sequence[Any]:
        self.lists += 1
        return await super().list(resource, cls, namespace, **fields)


def event(kind: str, name: str, reason: str, note: str = "", type: str = "Warning", second: int = 0) -> Event:
    plain = {
        "metadata": {"name": f"{name}.{reason}", "namespace": "d"},
        "regarding": {"kind": kind, "namespace": "d", "name": name},
        "reason": reason,
        "note": note,
        "type": type,
        "eventTime": f"2026-01-01T00:00:{second:02}.000000Z",
    }
    return convert(plain, Event)


def pod(name: str, **status: Any) -> Pod:
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    plain = {
        "metadata": {"name": name, "namespace": "d", "uid": name},
        "spec": {"nodeName": "n", "volumes": [claim] if status.pop("claim", False) else []},
        "status": {"phase": "Pending", **status},
    }
    return convert(plain, Pod)


def stopped(one: Pod, table: ClusterTable, events: Events) -> Stage:
    found = asyncio.run(late_events(one, table, events))
    stages = late_stages(one, "n", table, None, found.of_pod, found.of_claims, NODES_UNREAD)
    return next(stage for stage in stages if stage.state == "stopped")


def test_many_pods_are_told_with_one_list_of_events() -> None:
    secret = 'MountVolume.SetUp failed for volume "tls" : secret "tls" not found'
    objects: list[Object] = [event("Pod", f"p{number}", "FailedMount", secret) for number in range(50)]
    reads = CountedReads([*objects, event("Pod", "p1", "Pulled", type="Normal")])
    events = EventsOfMany(reads)
    for number in range(50):
        stage = stopped(pod(f"p{number}"), ClusterTable(), events)
        assert (stage.name, stage.text) == ("volumes", f"FailedMount: {secret}")
        assert stage.remedy == "create Secret tls; the kubelet tries again by itself"
    assert reads.lists == 1


def test_a_claim_that_waits_for_its_volume_has_the_words_of_its_provisioner() -> None:
    table = ClusterTable()
    claim = {"metadata": {"name": "data", "namespace": "d"}, "spec": {"storageClassName": "ebs"}}
    table.put(convert(claim, PersistentVolumeClaim))
    table.put(convert({"metadata": {"name": "ebs"}, "provisioner": "ebs.csi.aws.com"}, StorageClass))
    first = event("PersistentVolumeClaim", "data", "WaitForFirstConsumer", "waiting", "Normal", second=9)
    since = event("PersistentVolumeClaim", "data", "ExternalProvisioning", "Waiting for ebs", "Normal")
    reads = DumpReads([first, since])
    stage = stopped(pod("p", claim=True), table, EventsOfOne(reads))
    made = "no volume has been made for claim data of class ebs by provisioner ebs.csi.aws.com"
    assert stage.text == f"{made}: ExternalProvisioning: Waiting for ebs"
    assert asyncio.run(late_events(pod("p", claim=True), table, EventsOfMany(reads))).of_claims == {
        "data": [first, since]
    }


def test_the_last_warning_of_a_pod_counts_not_what_the_scheduler_said() -> None:
    reads = DumpReads(
        [
            event("Pod", "p", "FailedScheduling", "0/3 nodes", second=9),
            event("Pod", "p", "FailedCreatePodSandBox", "no address left", second=5),
            event("Pod", "p", "Failed", "older", second=1),
        ]
    )
    stage = stopped(pod("p"), ClusterTable(), EventsOfOne(reads))
    assert stage.text == "FailedCreatePodSandBox: no address left"
