"""Tokens of service accounts: asked for, used, bound to objects, checked by others, kept over a restart."""

import asyncio
import base64
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from localcluster.apiserver.served import PODS, Answer, Served, pod, serving
from localcluster.store.stores import HandClock
from stowplan.api import catalogue as c
from stowplan.api.requests import Json
from stowplan.localcluster.auth.tokens import SigningKey, TokenError, TokenIssuer
from stowplan.localcluster.durable import DataDirError
from stowplan.localcluster.store import Store

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEW = "/apis/authentication.k8s.io/v1/tokenreviews"


@pytest.fixture(scope="module")
def api() -> Iterator[Served]:
    with serving() as served:
        yield served


def ask_token(api: Served, account: str, **spec: Any) -> Answer:
    return api.ask("POST", f"{ACCOUNTS}/{account}/token", {"spec": spec})


def token_of(api: Served, account: str, **spec: Any) -> str:
    answer = ask_token(api, account, **spec)
    assert answer.code == 201, answer.body
    return str(answer.body["status"]["token"])


def claims_in(token: str) -> Any:
    part = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def test_a_token_says_whose_it_is_and_is_good_until_the_account_goes(api: Served) -> None:
    assert api.ask("POST", ACCOUNTS, {"metadata": {"name": "robot"}}).code == 201
    token = token_of(api, "robot", expirationSeconds=600)
    claims = claims_in(token)
    assert claims["sub"] == "system:serviceaccount:default:robot"
    assert claims["exp"] - claims["iat"] == 600
    me = api.ask("POST", WHOAMI, {}, Authorization=f"Bearer {token}").body["status"]["userInfo"]
    assert me["username"] == claims["sub"]
    assert me["groups"] == [
        "system:serviceaccounts",
        "system:serviceaccounts:default",
        "system:authenticated",
    ]
    assert me["extra"] == {"authentication.kubernetes.io/credential-id": [f"JTI={claims['jti']}"]}
    assert api.ask("GET", PODS, Authorization=f"Bearer {token}").code == 403
    assert api.ask("DELETE", f"{ACCOUNTS}/robot").code == 200
    assert api.ask("POST", WHOAMI, {}, Authorization=f"Bearer {token}").code == 401
    assert api.ask("POST", ACCOUNTS, {"metadata": {"name": "robot"}}).code == 201
    assert api.ask("POST", WHOAMI, {}, Authorization=f"Bearer {token}").code == 401


def test_a_token_that_was_changed_is_no_token(api: Served) -> None:
    token = token_of(api, "default")
    head, body, signature = token.split(".")
    other = (
        base64.urlsafe_b64encode(json.dumps({**claims_in(token), "sub": "x"}).encode()).decode().rstrip("=")
    )
    for wrong in (
        f"{head}.{other}.{signature}",
        f"{head}.{body}.{signature[:-8]}AAAAAAAA",
        f"{head}.{body}.",
    ):
        assert api.ask("POST", WHOAMI, {}, Authorization=f"Bearer {wrong}").code == 401
    assert api.ask("POST", WHOAMI, {}, Authorization=f"Bearer {token}").code == 201


def test_a_token_bound_to_a_pod_ends_with_it(api: Served) -> None:
    assert api.ask("POST", PODS, pod("bound", spec={"nodeName": "somewhere"})).code == 201
    ref = {"kind": "Pod", "apiVersion": "v1", "name": "bound"}
    token = token_of(api, "default", boundObjectRef=ref)
    me = api.ask("POST", WHOAMI, {}, Authorization=f"Bearer {token}").body["status"]["userInfo"]
    assert me["extra"]["authentication.kubernetes.io/pod-name"] == ["bound"]
    assert me["extra"]["authentication.kubernetes.io/node-name"] == ["somewhere"]
    assert api.ask("DELETE", f"{PODS}/bound?gracePeriodSeconds=0").code == 200
    assert api.ask("POST", WHOAMI, {}, Authorization=f"Bearer {token}").code == 401


@pytest.mark.parametrize(
    ("account", "spec", "code", "error"),
    [
        ("default", {"expirationSeconds": 599}, 422, "may not specify a duration less than 10 minutes"),
        ("default", {"expirationSeconds": 1 << 33}, 422, "may not specify a duration larger than 2^32"),
        ("none", {}, 404, 'serviceaccounts "none" not found'),
        ("default", {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "x"}}, 404, 'pods "x"'),
        (
            "default",
            {"boundObjectRef": {"kind": "Job", "apiVersion": "batch/v1", "name": "x"}},
            400,
            "cannot bind token to object of type batch/v1, Kind=Job",
        ),
        (
            "default",
            {"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "s", "uid": "other"}},
            409,
            "does not match the UID in record",
        ),
        ("default", {"expirationSeconds": "soon"}, 400, "TokenRequest"),
    ],
)
def test_what_cannot_be_signed_is_refused(
    api: Served, account: str, spec: dict[str, Any], code: int, error: str
) -> None:
    api.ask("POST", "/api/v1/namespaces/default/secrets", {"metadata": {"name": "s"}})
    answer = ask_token(api, account, **spec)
    assert answer.code == code, answer.body
    assert error in answer.body["message"]


def test_a_token_for_others_does_not_open_the_server_but_can_be_reviewed(api: Served) -> None:
    token = token_of(api, "default", audiences=["vault"])
    assert api.ask("POST", WHOAMI, {}, Authorization=f"Bearer {token}").code == 401
    asked = api.ask("POST", REVIEW, {"spec": {"token": token, "audiences": ["vault", "x"]}}).body["status"]
    assert asked["authenticated"]
    assert asked["audiences"] == ["vault"]
    assert asked["user"]["username"] == "system:serviceaccount:default:default"
    refused = api.ask("POST", REVIEW, {"spec": {"token": token}}).body["status"]
    assert refused["user"] == {}
    assert refused["error"].startswith('token audiences ["vault"] is invalid')
    unknown = api.ask("POST", REVIEW, {"spec": {"token": "nonsense"}}).body["status"]
    assert unknown == {"user": {}, "error": "invalid bearer token"}
    assert api.ask("POST", REVIEW, {"spec": {}}).code == 400


def test_relying_parties_find_the_key(api: Served) -> None:
    token = token_of(api, "default")
    assert api.ask("GET", "/openid/v1/jwks", Authorization="").code == 403
    found = api.ask("GET", "/.well-known/openid-configuration", Authorization=f"Bearer {token}").body
    assert found["issuer"] == claims_in(token)["iss"]
    assert found["jwks_uri"].endswith("/openid/v1/jwks")
    keys = api.ask("GET", "/openid/v1/jwks", Authorization=f"Bearer {token}")
    assert keys.headers["Content-Type"].startswith("application/jwk-set+json")
    [key] = json.loads(keys.body)["keys"]
    assert key["kid"] == json.loads(base64.urlsafe_b64decode(token.split(".")[0] + "=="))["kid"]


class Issued:
    """An issuer on a separate store with one account, and a clock set by hand."""

    def __init__(self, key: SigningKey | None = None) -> None:
        self.clock = HandClock()
        self.store = Store(self.clock, Random(1))
        self.account = self.store.create(c.SERVICE_ACCOUNTS, {"metadata": {"name": "a", "namespace": "n"}})
        self.issuer = TokenIssuer(self.store, self.clock, Random(1), key=key or SigningKey())

    def secret(self, **data: str) -> Json:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
        return self.store.create(c.SECRETS, {"metadata": {"name": "s", "namespace": "n"}, "data": encoded})


def test_a_token_is_good_for_its_time_and_a_little_longer_for_clocks_that_differ() -> None:
    issued = Issued()
    token = issued.issuer.sign(issued.account, issued.issuer.audiences, 600)
    issued.clock.time += 650
    assert issued.issuer.user_of(token) is not None
    issued.clock.time += 20
    with pytest.raises(TokenError, match="has expired"):
        issued.issuer.user_of(token)


def test_a_token_in_a_secret_is_good_as_long_as_the_secret_has_it() -> None:
    issued = Issued()
    named = {"metadata": {"name": "s"}}
    token = issued.issuer.sign_for_secret(issued.account, named)
    with pytest.raises(TokenError, match="invalidated"):
        issued.issuer.user_of(token)
    issued.secret(token=token)
    found = issued.issuer.user_of(token)
    assert found is not None
    assert found[0].name == "system:serviceaccount:n:a"
    issued.store.patch(c.SECRETS, "n", "s", {"data": {"token": "eA=="}})
    with pytest.raises(TokenError, match="does not match server's copy"):
        issued.issuer.user_of(token)


def test_the_key_is_kept_in_the_data_directory(tmp_path: Path) -> None:
    first = SigningKey.kept_in(tmp_path)
    assert SigningKey.kept_in(tmp_path).id == first.id
    assert (tmp_path / "sa.key").stat().st_mode & 0o777 == 0o600
    (tmp_path / "sa.key").write_text("nonsense")
    with pytest.raises(DataDirError, match=r"sa\.key: expected an unencrypted EC key"):
        SigningKey.kept_in(tmp_path)


def test_another_key_does_not_do() -> None:
    one, other = Issued(), Issued()
    token = one.issuer.sign(one.account, one.issuer.audiences, 600)
    with pytest.raises(TokenError, match="no keys found"):
        other.issuer.user_of(token)


def test_a_pod_waits_for_the_account_of_a_new_namespace(api: Served) -> None:
    async def create_later() -> None:
        await asyncio.sleep(0.1)
        api.store.create(c.SERVICE_ACCOUNTS, {"metadata": {"name": "default", "namespace": "new"}})

    assert api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "new"}}).code == 201
    api.begin(create_later())
    assert api.ask("POST", "/api/v1/namespaces/new/pods", pod("p")).code == 201
