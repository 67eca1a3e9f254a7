"""Service accounts in virtual time: defaults of a namespace, the root CA, Secrets for tokens."""

import base64
from collections.abc import Sequence

from localcluster.controllers.small_clusters import NAMESPACE, World, live
from stowplan.api.catalogue import CONFIG_MAPS, NAMESPACES, SECRETS, SERVICE_ACCOUNTS
from stowplan.api.requests import Json
from stowplan.localcluster.controllerruntime.controller import Controller, ControllerContext
from stowplan.localcluster.controllers.serviceaccount import (
    AccountSettings,
    RootCAPublisher,
    ServiceAccountController,
    TokensController,
)

CA = "-----BEGIN CERTIFICATE-----\n"


def controllers(context: ControllerContext) -> Sequence[Controller]:
    def sign(account: Json, secret: Json) -> str:
        return f"token of {account['metadata']['name']} in {secret['metadata']['name']}"

    settings = AccountSettings(lambda: CA, sign)
    return [
        ServiceAccountController(context),
        RootCAPublisher(context, settings),
        TokensController(context, settings),
    ]


def token_secret(name: str, account: str) -> Json:
    annotations = {"kubernetes.io/service-account.name": account}
    return {
        "metadata": {"name": name, "annotations": annotations},
        "type": "kubernetes.io/service-account-token",
    }


def decoded(secret: Json) -> dict[str, str]:
    return {key: base64.b64decode(value).decode() for key, value in secret["data"].items()}


def test_every_namespace_has_its_default_account_and_the_root_ca_and_gets_them_back() -> None:
    async def story(world: World) -> None:
        world.store.create(NAMESPACES, {"metadata": {"name": "late"}})
        await world.settle()
        for namespace in ("default", "kube-system", NAMESPACE, "late"):
            assert world.store.find(SERVICE_ACCOUNTS, namespace, "default") is not None
            published = world.store.get(CONFIG_MAPS, namespace, "kube-root-ca.crt")
            assert published["data"] == {"ca.crt": CA}
            assert "kubernetes.io/description" in published["metadata"]["annotations"]
        world.delete(SERVICE_ACCOUNTS, "default")
        world.delete(CONFIG_MAPS, "kube-root-ca.crt")
        world.store.patch(CONFIG_MAPS, "late", "kube-root-ca.crt", {"data": {"ca.crt": "x", "more": "y"}})
        await world.settle()
        assert "default" in world.names(SERVICE_ACCOUNTS)
        assert world.get(CONFIG_MAPS, "kube-root-ca.crt")["data"] == {"ca.crt": CA}
        assert world.store.get(CONFIG_MAPS, "late", "kube-root-ca.crt")["data"] == {"ca.crt": CA}

    live(story, controllers)


def test_a_secret_for_a_token_is_filled_and_goes_with_its_account() -> None:
    async def story(world: World) -> None:
        account = world.put(SERVICE_ACCOUNTS, {"metadata": {"name": "bot"}, "secrets": [{"name": "t2"}]})
        for name in ("t1", "t2"):
            world.put(SECRETS, token_secret(name, "bot"))
        world.put(SECRETS, token_secret("lost", "nobody"))
        world.put(SECRETS, {"metadata": {"name": "other"}, "type": "Opaque"})
        await world.settle()
        assert sorted(world.names(SECRETS)) == ["other", "t1", "t2"], "no account, no Secret for its token"
        filled = world.get(SECRETS, "t1")
        assert decoded(filled) == {"ca.crt": CA, "namespace": NAMESPACE, "token": "token of bot in t1"}
        annotations = filled["metadata"]["annotations"]
        assert annotations["kubernetes.io/service-account.uid"] == account["metadata"]["uid"]
        world.delete(SECRETS, "t2")
        await world.settle()
        assert not world.get(SERVICE_ACCOUNTS, "bot").get("secrets"), "the account names what exists"
        world.delete(SERVICE_ACCOUNTS, "bot")
        await world.settle()
        assert world.names(SECRETS) == ["other"]

    live(story, controllers)
