"""Objects that every cluster has from the start."""

from typing import Final

from stowplan.api.catalogue import NAMESPACES, PRIORITY_CLASSES, SERVICE_ACCOUNTS
from stowplan.embedded.admission.serviceaccount import DEFAULT_ACCOUNT
from stowplan.embedded.auth.policy import create_bootstrap_policy
from stowplan.embedded.store import Store

BOOTSTRAP_NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
SYSTEM_PRIORITIES: Final = {
    "system-cluster-critical": (
        2_000_000_000,
        "For pods the cluster cannot do without, wherever they run.",
    ),
    "system-node-critical": (
        2_000_001_000,
        "For pods a node cannot do without.",
    ),
}


def create_bootstrap_objects(store: Store) -> None:
    """Make the objects that are always there, where they are not yet."""
    for name in BOOTSTRAP_NAMESPACES:
        if store.find(NAMESPACES, "", name) is None:
            store.create(NAMESPACES, {"metadata": {"name": name}})
            create_default_account(store, name)
    for name, (value, description) in SYSTEM_PRIORITIES.items():
        if store.find(PRIORITY_CLASSES, "", name) is None:
            body = {"metadata": {"name": name}, "value": value, "description": description}
            store.create(PRIORITY_CLASSES, body)
    create_bootstrap_policy(store)


def create_default_account(store: Store, namespace: str) -> None:
    """Have a namespace's default account at once, for pods that cannot wait for a controller to make it."""
    if store.find(SERVICE_ACCOUNTS, namespace, DEFAULT_ACCOUNT) is None:
        store.create(SERVICE_ACCOUNTS, {"metadata": {"name": DEFAULT_ACCOUNT}}, namespace)
