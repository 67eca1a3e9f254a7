"""The plugin ServiceAccount: what pods get from the account they run as, and when they are refused."""

import random
from typing import Any

import pytest

from localcluster.store.stores import HandClock
from stowplan.api import catalogue as c
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.localcluster.admission import ClusterAdmission, create_bootstrap_objects
from stowplan.localcluster.store import Store

PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
ENFORCED = {"kubernetes.io/enforce-mountable-secrets": "true"}
MIRROR = {"kubernetes.io/config.mirror": "x"}


def new_store(*disabled: str) -> Store:
    made = Store(HandClock(), random.Random(1), admission=ClusterAdmission(disabled=disabled))
    create_bootstrap_objects(made)
    return made


def account(store: Store, name: str, annotations: dict[str, str] | None = None, **fields: Any) -> None:
    metadata = {"name": name, "annotations": annotations or {}}
    store.create(c.SERVICE_ACCOUNTS, {"metadata": metadata, **fields}, "default")


def pod(spec: Json | None = None, annotations: dict[str, str] | None = None, **container: Any) -> Json:
    main = {"name": "main", "image": "registry.example/app:1", **container}
    metadata = {"name": "p", "annotations": annotations or {}}
    return {"metadata": metadata, "spec": {"containers": [main], **(spec or {})}}


def created(store: Store, body: Json) -> Any:
    return store.create(c.PODS, body, "default")["spec"]


def test_the_token_is_mounted_into_every_container_that_has_nothing_there() -> None:
    other = [{"name": "init", "image": "i"}, {"name": "own", "image": "i"}]
    other[1]["volumeMounts"] = [{"name": "v", "mountPath": PATH}]  # type: ignore[assignment]
    spec = created(new_store(), pod({"initContainers": other, "volumes": [{"name": "v", "emptyDir": {}}]}))
    assert spec["serviceAccountName"] == spec["serviceAccount"] == "default"
    volume = spec["volumes"][1]
    assert volume["name"].startswith("kube-api-access-")
    assert len(volume["name"]) == len("kube-api-access-") + 5
    mount = {"name": volume["name"], "readOnly": True, "mountPath": PATH}
    assert spec["containers"][0]["volumeMounts"] == [mount]
    assert spec["initContainers"][0]["volumeMounts"] == [mount]
    assert spec["initContainers"][1]["volumeMounts"] == [{"name": "v", "mountPath": PATH}]
    token, root_ca, namespace = volume["projected"]["sources"]
    assert token == {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
    assert root_ca["configMap"]["name"] == "kube-root-ca.crt"
    assert namespace["downwardAPI"]["items"][0]["fieldRef"]["fieldPath"] == "metadata.namespace"
    assert volume["projected"]["defaultMode"] == 420


@pytest.mark.parametrize(
    ("of_account", "of_pod", "mounted"),
    [(None, None, True), (False, None, False), (False, True, True), (True, False, False)],
)
def test_pod_and_account_say_whether_the_token_is_mounted(
    of_account: bool | None, of_pod: bool | None, mounted: bool
) -> None:
    store = new_store()
    fields: Any = {} if of_account is None else {"automountServiceAccountToken": of_account}
    account(store, "a", **fields)
    spec: Json = {"serviceAccountName": "a"}
    if of_pod is not None:
        spec["automountServiceAccountToken"] = of_pod
    assert bool(created(store, pod(spec)).get("volumes")) == mounted


def test_pull_secrets_come_from_the_account_unless_the_pod_has_some() -> None:
    store = new_store()
    account(store, "a", imagePullSecrets=[{"name": "reg"}])
    assert created(store, pod({"serviceAccountName": "a"}))["imagePullSecrets"] == [{"name": "reg"}]
    store.delete(c.PODS, "default", "p")
    own = {"serviceAccountName": "a", "imagePullSecrets": [{"name": "own"}]}
    assert created(store, pod(own))["imagePullSecrets"] == [{"name": "own"}]


_ENV: Any = {"env": [{"name": "E", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}
_LACKING = "is not allowed because service account a does not reference that secret"


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (
            pod({"serviceAccountName": "none"}),
            'error looking up service account default/none: serviceaccount "none" not found',
        ),
        (
            pod({"serviceAccountName": "a", "volumes": [{"name": "v", "secret": {"secretName": "s"}}]}),
            f'volume with secret.secretName="s" {_LACKING}',
        ),
        (
            pod({"serviceAccountName": "a"}, **_ENV),
            f'container main with envVar E referencing secret.secretName="s" {_LACKING}',
        ),
        (
            pod({"serviceAccountName": "a"}, envFrom=[{"secretRef": {"name": "s"}}]),
            f'container main with envFrom referencing secret.secretName="s" {_LACKING}',
        ),
        (
            pod({"serviceAccountName": "a", "imagePullSecrets": [{"name": "r"}]}),
            'imagePullSecrets[0].name="r" is not allowed because service account a does not reference',
        ),
        (pod({"serviceAccountName": "a"}, MIRROR), "a mirror pod may not reference service accounts"),
        (pod(None, MIRROR, **_ENV), "a mirror pod may not reference secrets"),
    ],
)
def test_pods_are_refused(body: Json, error: str) -> None:
    store = new_store()
    account(store, "a", ENFORCED, secrets=[{"name": "allowed"}])
    with pytest.raises(ApiError) as caught:
        created(store, body)
    assert caught.value.code == 403
    assert error in caught.value.message


def test_secrets_that_an_account_names_may_be_mounted() -> None:
    store = new_store()
    account(store, "a", ENFORCED, secrets=[{"name": "s"}])
    assert created(store, pod({"serviceAccountName": "a"}, **_ENV))


def test_without_the_plugin_pods_need_no_account() -> None:
    store = new_store("ServiceAccount")
    store.create(c.NAMESPACES, {"metadata": {"name": "bare"}})
    spec = store.create(c.PODS, pod(), "bare")["spec"]
    assert "volumes" not in spec
    assert "serviceAccountName" not in spec
