"""Numbers that a client chooses: none is multiplied out, counted up to, or looked for again and again."""

from typing import Any

import pytest

from localcluster.apiserver.served import Served, deployment, pod

PODS = "/api/v1/namespaces/default/pods"
DIGITS = "9" * 200_000


def with_requests(name: str, *amounts: str, resource: str = "cpu") -> dict[str, Any]:
    containers = [
        {"name": f"c{number}", "image": "x", "resources": {"requests": {resource: amount}}}
        for number, amount in enumerate(amounts)
    ]
    return pod(name, spec={"containers": containers})


@pytest.mark.parametrize(
    ("amount", "stored"),
    [
        ("1e10000000", "10e9999999"),
        ("1e999999999", "1e999999999"),
        ("1e-999999999", "1e-9"),
        ("0e999999999", "0"),
        ("9" * 30 + "e2147483642", "9" * 30 + "00e2147483640"),
        (DIGITS, DIGITS),
    ],
    ids=lambda text: text[:20],
)
def test_a_pod_of_any_amount_is_kept_as_upstream_writes_it(api: Served, amount: str, stored: str) -> None:
    answer = api.ask("POST", PODS, with_requests(f"p{abs(hash(amount))}", amount, "1"))
    assert answer.code == 201, answer.body["message"][:300]
    assert answer.body["spec"]["containers"][0]["resources"]["requests"]["cpu"] == stored
    assert api.ask("GET", PODS).code == 200


def test_quota_adds_up_amounts_that_are_millions_of_digits_apart(api: Served) -> None:
    hard = {"requests.cpu": "1e2000000"}
    path = "/api/v1/namespaces/default/resourcequotas"
    quota = api.ask("POST", path, {"metadata": {"name": "q"}, "spec": {"hard": hard}}).body
    quota["status"] = {"hard": hard, "used": {"requests.cpu": "0"}}
    assert api.ask("PUT", f"{path}/q/status", quota).code == 200
    assert api.ask("POST", PODS, with_requests("some", "1e100000", "1")).code == 201
    assert len(api.ask("GET", f"{path}/q").body["status"]["used"]["requests.cpu"]) < 3000
    assert api.ask("POST", PODS, with_requests("more", "1e3000000", "1")).code == 403
    api.ask("DELETE", f"{path}/q")


@pytest.mark.parametrize("amount", ["1" * 300_000 + "x", "0" * 300_000 + "x", "1e" + "1" * 300_000])
def test_a_long_amount_with_a_bad_end_is_refused(api: Served, amount: str) -> None:
    assert api.ask("POST", PODS, with_requests("bad", amount)).code in (400, 422)


def test_a_percentage_of_many_digits_is_no_percentage_of_anything(api: Served) -> None:
    body = deployment("surge")
    body["spec"]["strategy"] = {"rollingUpdate": {"maxSurge": f"{DIGITS}%", "maxUnavailable": f"{DIGITS}%"}}
    assert api.ask("POST", "/apis/apps/v1/namespaces/default/deployments", body).code in (201, 422)


def test_thousands_of_spread_constraints_are_checked_in_one_pass(api: Served) -> None:
    """Each against all that follow took 10 s for 8,000 of them."""
    constraint = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    many = [{**constraint, "topologyKey": f"k{number}"} for number in range(3000)]
    answer = api.ask("POST", PODS, pod("spread", spec={"topologySpreadConstraints": [*many, many[0]]}))
    assert answer.code == 422
    assert "spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}" in answer.body["message"]


def test_a_capacity_with_a_suffix_that_is_none_is_a_bad_request(api: Served) -> None:
    policy = {"default": "1e99999999999999999999", "validRange": {"min": "1"}}
    device = {
        "name": "d",
        "allowMultipleAllocations": True,
        "capacity": {"m": {"value": "1", "requestPolicy": policy}},
    }
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example", "nodeName": "n", "pool": pool, "devices": [device]}
    body = {"metadata": {"name": "s"}, "spec": spec}
    answer = api.ask("POST", "/apis/resource.k8s.io/v1/resourceslices", body)
    assert (answer.code, answer.body["message"]) == (400, "unable to parse quantity's suffix")
