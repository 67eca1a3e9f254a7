"""Campaigns' messages about wrong claims."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from stowplan.lab.chaos import campaign_claims
from stowplan.lab.chaos.campaign_claims import CampaignClaims

Json = dict[str, Any]


class StoredClaims:
    """An API server as far as the checks ask one."""

    def __init__(self, *claims: Json) -> None:
        self.claims = list(claims)

    async def request(self, method: str, path: str, body: Json | None = None) -> Json:
        return {"items": self.claims}


def claim(name: str, device: str, *pods: str, **metadata: Any) -> Json:
    pool, _, unit = device.partition("/")
    result = {"driver": "gpu.example.com", "pool": pool, "device": unit, "request": "r"}
    status: Json = {"reservedFor": [{"name": pod, "uid": pod} for pod in pods]}
    if device:
        status["allocation"] = {"devices": {"results": [result]}}
    return {"metadata": {"name": name, **metadata}, "status": status}


def pod(name: str, node: str, claim: str) -> Json:
    container = {"resources": {"requests": {"cpu": "1"}}}
    claims = [{"name": "own", "resourceClaimName": claim}]
    return {
        "metadata": {"name": name, "uid": name},
        "spec": {"nodeName": node, "resourceClaims": claims, "containers": [container]},
    }


def checks(*claims: Json) -> CampaignClaims:
    server: Any = StoredClaims(*claims)
    return CampaignClaims(server, ["n1", "n2"], 2, Path("unused"))


OWNED = {"ownerReferences": [{"name": "p", "uid": "p"}]}
EXTENDED = {"annotations": {"resource.kubernetes.io/extended-resource-claim": "true"}}


@pytest.mark.parametrize(
    ("claims", "problem"),
    [
        ([claim("c", "n1/gpu-0", "p")], None),
        ([claim("c", "fabric/x", "p")], None),
        ([], "pod p is bound and its claim c has no devices"),
        ([claim("c", "", "p")], "pod p is bound and its claim c has no devices"),
        ([claim("c", "n1/gpu-0")], "pod p is bound and its claim c is not reserved for it"),
        ([claim("c", "n2/gpu-0", "p")], "pod p is on n1, the devices of its claim c are not"),
        ([claim("c", "n1/gpu-0", "p", "q")], "claim c is reserved for a pod that is gone"),
        (
            [claim("c", "n1/gpu-0", "p"), claim("d", "n1/gpu-0")],
            "device n1/gpu-0 is given to c and d",
        ),
        (
            [claim("c", "n1/gpu-0", "p", **OWNED), claim("d", "n1/gpu-1", **OWNED)],
            "pod p has 2 claims",
        ),
        (
            [claim("c", "n1/gpu-0", "p", **OWNED, **EXTENDED), claim("d", "n1/gpu-1", **OWNED, **EXTENDED)],
            "pod p has 2 claims",
        ),
        ([claim("c", "n1/gpu-0", "p", **OWNED, **EXTENDED), claim("d", "", **OWNED, **EXTENDED)], None),
        ([claim("c", "n1/gpu-0", "p", **OWNED), claim("d", "", **OWNED)], "pod p has 2 claims"),
    ],
)
def test_claims_of_a_round(claims: list[Json], problem: str | None) -> None:
    found = asyncio.run(checks(*claims).check([pod("p", "n1", "c")]))
    assert found == ([] if problem is None else [problem])


def test_claims_that_are_left_when_their_pods_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign_claims, "GONE_WITHIN", 0.0)
    assert asyncio.run(checks().end_round("r1")) == []
    left = asyncio.run(checks(claim("c", "n1/gpu-0", "p")).end_round("r1"))
    assert left == ["1 claims are left when their pods are gone: c"]
