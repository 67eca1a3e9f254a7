"""`stowplan run` on a cluster with pods that a decoder cannot take in as they are."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from server.process.processes import Cluster, cluster
from stowplan.api.catalogue import EVENTS, PODS
from stowplan.localcluster.apiserver import responses
from waiting import eventually

DEEP = b'{"f:a":' * 2_000 + b"{}" + b"}" * 2_000
"""Admitted by kube-apiserver, not by ours: it is put into answers of the server where a pod says so."""

MANAGED, DECLARED = ({"poison": where} for where in ("managed", "declared"))
PUT_IN = {
    b'"annotations":{"poison":"managed"}': b'"annotations":{},"managedFields":[{"fieldsV1":%b}]' % DEEP,
    b'"annotations":{"poison":"declared"}': b'"annotations":{"poison":%b}' % DEEP,
}


def poison_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    encode = responses.encode

    def poisoned(value: Any) -> bytes:
        text = encode(value)
        for place, poison in PUT_IN.items():
            text = text.replace(place, poison)
        return text

    monkeypatch.setattr(responses, "encode", poisoned)


def add_pod(place: Cluster, name: str, annotations: dict[str, str]) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}], "schedulerName": "default-scheduler"}
    metadata = {"name": name, "namespace": "default", "annotations": annotations}
    place.store.create(PODS, {"metadata": metadata, "spec": spec})


def failed_decoding(place: Cluster) -> dict[str, str]:
    found = place.store.list(EVENTS).items
    return {one["regarding"]["name"]: one["type"] for one in found if one["reason"] == "FailedDecoding"}


def test_a_pod_with_deep_managed_fields_is_scheduled_and_one_that_cannot_be_read_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison_answers(monkeypatch)

    async def story() -> None:
        async with cluster(tmp_path) as place:
            place.add_nodes(3)
            add_pod(place, "deep-in-list", MANAGED)
            add_pod(place, "bad-in-list", DECLARED)
            place.add_pod("after-list")
            scheduler = await place.start("--leader-elect=false")
            await place.bound("deep-in-list", "after-list")
            add_pod(place, "deep-in-watch", MANAGED)
            add_pod(place, "bad-in-watch", DECLARED)
            place.add_pod("after-watch")
            await place.bound("deep-in-watch", "after-watch")
            for name in ("bad-in-list", "bad-in-watch"):
                await scheduler.says(f'"Object cannot be read.*annotations.*"pods".*/{name}"')
                assert not place.node_of(name)
            expected = {"bad-in-list": "Warning", "bad-in-watch": "Warning"}
            await eventually(lambda: failed_decoding(place) == expected, lambda: str(failed_decoding(place)))
            assert scheduler.process.returncode is None
            assert "Traceback" not in scheduler.log

    asyncio.run(story())
