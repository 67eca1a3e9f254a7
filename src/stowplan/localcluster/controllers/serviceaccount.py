"""Service accounts: the default one of every namespace, its root CA, and tokens in Secrets."""

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final

from stowplan.api.catalogue import CONFIG_MAPS, NAMESPACES, SECRETS, SERVICE_ACCOUNTS
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.localcluster.controllerruntime.controller import Controller, ControllerContext, gather_writes
from stowplan.localcluster.objects.fields import annotations_of, is_deleting, key_of, name_of, uid_of

DEFAULT_ACCOUNT: Final = "default"
ROOT_CA: Final = "kube-root-ca.crt"
TOKEN_TYPE: Final = "kubernetes.io/service-account-token"
ACCOUNT_NAME: Final = "kubernetes.io/service-account.name"
ACCOUNT_UID: Final = "kubernetes.io/service-account.uid"
DESCRIPTION: Final = "kubernetes.io/description"
_ROOT_CA_DESCRIPTION: Final = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such "
    "as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across "
    "distributions of Kubernetes clusters."
)

SignToken = Callable[[Json, Json], str]
"""Makes the token of a service account for a Secret that holds it."""


@dataclass(frozen=True, slots=True)
class AccountSettings:
    """Inputs of service accounts from the API server.

    `root_ca`: the PEM that clients check its certificate against, "" without TLS; called when it is needed,
    since a server makes its certificate when it starts. `sign_token`: None without a signer; then Secrets for
    tokens stay without one.
    """

    root_ca: Callable[[], str] = lambda: ""
    sign_token: SignToken | None = None


class ServiceAccountController(Controller):
    """Gives every namespace its default service account."""

    name: ClassVar[str] = "serviceaccount-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.namespaces = self.follow(NAMESPACES)
        self.accounts = self.informer(SERVICE_ACCOUNTS)
        self.accounts.add_handler(self._account_changed)

    def _account_changed(self, old: Json | None, new: Json | None) -> None:
        if new is None and old is not None and name_of(old) == DEFAULT_ACCOUNT:
            self.queue.add(old["metadata"]["namespace"])

    async def sync(self, key: str) -> None:
        namespace = self.namespaces.get(key)
        if namespace is None or is_deleting(namespace):
            return
        if self.accounts.get(f"{key}/{DEFAULT_ACCOUNT}") is not None:
            return
        try:
            await self.create(SERVICE_ACCOUNTS, {"metadata": {"name": DEFAULT_ACCOUNT, "namespace": key}})
        except ApiError as error:
            if not error.is_already_exists:
                raise


class RootCAPublisher(Controller):
    """Keeps the API server's CA in a ConfigMap of every namespace."""

    name: ClassVar[str] = "root-ca-certificate-publisher-controller"

    def __init__(self, context: ControllerContext, settings: AccountSettings) -> None:
        super().__init__(context)
        self._root_ca = settings.root_ca
        self.namespaces = self.follow(NAMESPACES)
        self.config_maps = self.informer(CONFIG_MAPS)
        self.config_maps.add_handler(self._config_map_changed)

    def _config_map_changed(self, old: Json | None, new: Json | None) -> None:
        if old is not None and name_of(old) == ROOT_CA:
            self.queue.add(old["metadata"]["namespace"])

    async def sync(self, key: str) -> None:
        namespace = self.namespaces.get(key)
        if namespace is None or is_deleting(namespace):
            return
        data = {"ca.crt": self._root_ca()}
        found = self.config_maps.get(f"{key}/{ROOT_CA}")
        if found is None:
            metadata = {"name": ROOT_CA, "namespace": key, "annotations": {DESCRIPTION: _ROOT_CA_DESCRIPTION}}
            try:
                await self.create(CONFIG_MAPS, {"metadata": metadata, "data": data})
            except ApiError as error:
                if not error.is_already_exists:
                    raise
        elif found.get("data") != data or not annotations_of(found).get(DESCRIPTION):
            removed = dict.fromkeys(set(found.get("data") or ()) - set(data))
            annotations = {DESCRIPTION: _ROOT_CA_DESCRIPTION}
            patch = {"data": {**removed, **data}, "metadata": {"annotations": annotations}}
            await self.change(CONFIG_MAPS, found, patch)


def token_data(secret: Json, root_ca: str) -> dict[str, str]:
    """Missing entries of a Secret for a token besides the token itself, encoded as in `data`."""
    held = secret.get("data") or {}
    lacking: dict[str, str] = {}
    if root_ca and held.get("ca.crt") != _encoded(root_ca):
        lacking["ca.crt"] = _encoded(root_ca)
    if not held.get("namespace"):
        lacking["namespace"] = _encoded(secret["metadata"]["namespace"])
    return lacking


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


class TokensController(Controller):
    """Fills Secrets for tokens of service accounts, and deletes those whose account is gone."""

    name: ClassVar[str] = "serviceaccount-token-controller"

    def __init__(self, context: ControllerContext, settings: AccountSettings) -> None:
        super().__init__(context)
        self._settings = settings
        self.accounts = self.informer(SERVICE_ACCOUNTS)
        self.secrets = self.informer(SECRETS)
        self._of_account = self.secrets.index(_account_of)
        self.secrets.add_handler(self._secret_changed)
        self.accounts.add_handler(self._account_changed)

    def _secret_changed(self, old: Json | None, new: Json | None) -> None:
        if new is not None and _account_of(new):
            self.queue.add(key_of(new))
        elif new is None and old is not None and _account_of(old):
            self.queue.add(key_of(old))

    def _account_changed(self, old: Json | None, new: Json | None) -> None:
        if old is not None and (new is None or uid_of(new) != uid_of(old)):
            for key in self._of_account[key_of(old)]:
                self.queue.add(key)

    async def sync(self, key: str) -> None:
        secret = self.secrets.get(key)
        if secret is None:
            await self._forget(key)
            return
        account = await self._account(secret)
        if account is None:
            await self.delete(SECRETS, secret)
        elif not is_deleting(secret):
            await self._fill(secret, account)

    async def _account(self, secret: Json) -> Json | None:
        """The account of a Secret, None if it does not exist or is another of that name."""
        namespace, name = secret["metadata"]["namespace"], annotations_of(secret)[ACCOUNT_NAME]
        uid = annotations_of(secret).get(ACCOUNT_UID)
        known = self.accounts.get(f"{namespace}/{name}")
        if known is None or (uid and uid_of(known) != uid):
            try:
                known = await self.client.get(SERVICE_ACCOUNTS, namespace, name)
            except ApiError as error:
                if error.is_not_found:
                    return None
                raise
        return known if not uid or uid_of(known) == uid else None

    async def _fill(self, secret: Json, account: Json) -> None:
        data = token_data(secret, self._settings.root_ca())
        if self._settings.sign_token is not None and not (secret.get("data") or {}).get("token"):
            data["token"] = _encoded(self._settings.sign_token(account, secret))
        if data:
            annotations = {ACCOUNT_NAME: name_of(account), ACCOUNT_UID: uid_of(account)}
            await self.change(SECRETS, secret, {"data": data, "metadata": {"annotations": annotations}})

    async def _forget(self, key: str) -> None:
        """Remove a Secret that is gone from the accounts that name it."""
        namespace, _, name = key.rpartition("/")
        naming = [
            account
            for account in self.accounts.in_namespace[namespace].values()
            if any(one.get("name") == name for one in account.get("secrets") or ())
        ]
        await gather_writes(
            self.change(SERVICE_ACCOUNTS, account, {"secrets": _secrets_without(account, name)})
            for account in naming
        )


def _account_of(secret: Json) -> list[str]:
    """The key of the account whose token a Secret holds."""
    name = annotations_of(secret).get(ACCOUNT_NAME)
    if secret.get("type") != TOKEN_TYPE or not name:
        return []
    return [f"{secret['metadata']['namespace']}/{name}"]


def _secrets_without(account: Json, name: str) -> list[Json] | None:
    return [one for one in account.get("secrets") or () if one.get("name") != name] or None
