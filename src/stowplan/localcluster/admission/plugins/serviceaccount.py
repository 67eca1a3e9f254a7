"""The plugin ServiceAccount: every pod runs as an account of its namespace, and gets at its token.

A pod that names no account runs as `default`. A token, the root CA and the namespace are mounted into its
containers, unless pod or account say otherwise. Pull secrets are the account's if the pod has none.
"""

from collections.abc import Iterable, Iterator
from typing import Final
from zlib import crc32

from stowplan.api.catalogue import SERVICE_ACCOUNTS
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.gocompat.quoting import quote
from stowplan.localcluster.admission.bootstrap import DEFAULT_ACCOUNT
from stowplan.localcluster.admission.refusals import forbidden_pod
from stowplan.localcluster.admission.validation.pods.pods import MIRROR, TOKEN_VOLUME
from stowplan.localcluster.store.registry import Lookup

TOKEN_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_PAIRS: Final = [first + second for first in _LETTERS for second in _LETTERS]
_ENFORCE: Final = "kubernetes.io/enforce-mountable-secrets"
_TRUE: Final = ("1", "t", "T", "TRUE", "true", "True")
_PROJECTED: Final[Json] = {
    "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
        {
            "downwardAPI": {
                "items": [
                    {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}, "path": "namespace"}
                ]
            }
        },
    ],
    "defaultMode": 420,
}
"""The projected volume: one for all pods, because stored objects are never changed."""

_SECRET_SOURCES: Final = (
    ("azureFile", "secretName"),
    ("cephfs", "secretRef"),
    ("cinder", "secretRef"),
    ("flexVolume", "secretRef"),
    ("rbd", "secretRef"),
    ("secret", "secretName"),
    ("scaleIO", "secretRef"),
    ("iscsi", "secretRef"),
    ("storageos", "secretRef"),
    ("csi", "nodePublishSecretRef"),
)


class NoDefaultAccountError(ApiError):
    """A pod comes before the default account of its namespace, which may be on its way."""

    @classmethod
    def of(cls, refusal: ApiError) -> "NoDefaultAccountError":
        return cls(refusal.code, refusal.reason, refusal.message, refusal.details)


def set_service_account(lookup: Lookup, pod: Json) -> None:
    """Have a new pod run as an account. Raises `ApiError` 403."""
    spec = pod["spec"]
    if MIRROR in (pod["metadata"].get("annotations") or {}):
        _check_mirror_pod(pod)
        return
    name = spec.get("serviceAccountName") or spec.get("serviceAccount") or DEFAULT_ACCOUNT
    spec["serviceAccountName"] = spec["serviceAccount"] = name
    namespace = pod["metadata"]["namespace"]
    account = lookup.find(SERVICE_ACCOUNTS, namespace, name)
    if account is None:
        why = f"error looking up service account {namespace}/{name}: serviceaccount {quote(name)} not found"
        refusal = forbidden_pod(pod, why)
        raise NoDefaultAccountError.of(refusal) if name == DEFAULT_ACCOUNT else refusal
    mounts = spec.get("automountServiceAccountToken")
    if mounts is None:
        mounts = account.get("automountServiceAccountToken")
    if mounts is None or mounts:
        _mount_token(pod)
    if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
        spec["imagePullSecrets"] = [{"name": one.get("name", "")} for one in account["imagePullSecrets"]]
    if (account["metadata"].get("annotations") or {}).get(_ENFORCE) in _TRUE:
        _check_secrets(pod, account)


def _mount_token(pod: Json) -> None:
    """Mount the token volume into containers that have nothing at its path.

    Containers may be those of the template that the pod was made from, so they are copied, not changed.
    """
    spec = pod["spec"]
    volumes = spec.get("volumes") or []
    volume = next((one["name"] for one in volumes if one.get("name", "").startswith(TOKEN_VOLUME)), "")
    name = volume or TOKEN_VOLUME + _suffix(pod["metadata"]["uid"])
    mount = {"name": name, "readOnly": True, "mountPath": TOKEN_PATH}
    needed = False
    for field in ("initContainers", "containers"):
        containers = spec.get(field)
        if containers:
            mounted = [_with_mount(container, mount) for container in containers]
            if mounted != containers:
                spec[field] = mounted
                needed = True
    if needed and not volume:
        spec["volumes"] = [*volumes, {"name": name, "projected": _PROJECTED}]


def _with_mount(container: Json, mount: Json) -> Json:
    mounts = container.get("volumeMounts")
    if not mounts:
        return {**container, "volumeMounts": [mount]}
    if any(one.get("mountPath") == TOKEN_PATH for one in mounts):
        return container
    return {**container, "volumeMounts": [*mounts, mount]}


def _suffix(uid: str) -> str:
    """Five letters that look random, and are the same whenever this pod is admitted."""
    number, last = divmod(crc32(uid.encode()), len(_LETTERS))
    first, second = divmod(number % len(_PAIRS) ** 2, len(_PAIRS))
    return _PAIRS[first] + _PAIRS[second] + _LETTERS[last]


def keep_service_account(lookup: Lookup, old: Json, new: Json) -> None:
    """Keep a value that was resolved at creation and is left out of an update."""
    before, spec = old.get("spec") or {}, new["spec"]
    for field in ("serviceAccountName", "serviceAccount", "nodeName"):
        if field in before:
            spec.setdefault(field, before[field])


def _check_mirror_pod(pod: Json) -> None:
    """A mirror pod only shows what a kubelet runs: it has no account and no secrets."""
    spec = pod["spec"]
    if spec.get("serviceAccountName") or spec.get("serviceAccount"):
        raise forbidden_pod(pod, "a mirror pod may not reference service accounts")
    if any(True for _ in _secret_names(spec)):
        raise forbidden_pod(pod, "a mirror pod may not reference secrets")
    for volume in spec.get("volumes") or ():
        sources = (volume.get("projected") or {}).get("sources") or ()
        if any("serviceAccountToken" in source for source in sources):
            why = "a mirror pod may not use ServiceAccountToken volume projections"
            raise forbidden_pod(pod, why)


def _secret_names(spec: Json) -> Iterator[str]:
    """Every secret that a pod refers to."""
    yield from (one.get("name", "") for one in spec.get("imagePullSecrets") or ())
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(field) or ():
            yield from (secret for _, secret in _container_secrets(container))
    for volume in spec.get("volumes") or ():
        for kind, field in _SECRET_SOURCES:
            named = (volume.get(kind) or {}).get(field)
            if named:
                yield named["name"] if isinstance(named, dict) else named
        for source in (volume.get("projected") or {}).get("sources") or ():
            if "secret" in source:
                yield source["secret"].get("name", "")


def _container_secrets(container: Json) -> Iterator[tuple[str, str]]:
    """The secrets in the environment of a container, and where each is referred to."""
    for variable in container.get("env") or ():
        key = (variable.get("valueFrom") or {}).get("secretKeyRef")
        if key:
            yield f"envVar {variable.get('name', '')}", key.get("name", "")
    for source in container.get("envFrom") or ():
        if source.get("secretRef"):
            yield "envFrom", source["secretRef"].get("name", "")


def _check_secrets(pod: Json, account: Json) -> None:
    """An account may be limited to the secrets it names. Raises `ApiError` 403."""
    spec = pod["spec"]
    allowed, name = _names(account.get("secrets")), account["metadata"]["name"]
    lacking = f"is not allowed because service account {name} does not reference that secret"
    for volume in spec.get("volumes") or ():
        secret = (volume.get("secret") or {}).get("secretName")
        if secret is not None and secret not in allowed:
            raise forbidden_pod(pod, f'volume with secret.secretName="{secret}" {lacking}')
    for field, kind in (("initContainers", "init container"), ("containers", "container")):
        for container in spec.get(field) or ():
            for place, secret in _container_secrets(container):
                if secret not in allowed:
                    where = f"{kind} {container.get('name', '')} with {place}"
                    raise forbidden_pod(pod, f'{where} referencing secret.secretName="{secret}" {lacking}')
    pulled = _names(account.get("imagePullSecrets"))
    for i, one in enumerate(spec.get("imagePullSecrets") or ()):
        secret = one.get("name", "")
        if secret not in pulled:
            why = f"because service account {name} does not reference that imagePullSecret"
            raise forbidden_pod(pod, f'imagePullSecrets[{i}].name="{secret}" is not allowed {why}')


def _names(references: Iterable[Json] | None) -> set[str]:
    return {one.get("name", "") for one in references or ()}
