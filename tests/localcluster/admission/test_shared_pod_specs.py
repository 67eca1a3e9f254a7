"""Pods of one template share their admitted specs, with the same result as without sharing."""

import copy
import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from localcluster.store.stores import HandClock
from stowplan.api import catalogue as c
from stowplan.api.quantity import QuantityError
from stowplan.api.status import ApiError
from stowplan.localcluster.admission import ClusterAdmission, create_bootstrap_objects
from stowplan.localcluster.admission.defaults import podspec
from stowplan.localcluster.quota import qos
from stowplan.localcluster.store import Store

WRITTEN = st.sampled_from(("1", 1, True, "0", "-1", "x", "1Gi", None))
amounts = st.dictionaries(
    st.sampled_from(("cpu", "memory")),
    WRITTEN,
    max_size=2,
)
resources = st.fixed_dictionaries({}, optional={"requests": amounts, "limits": amounts})
containers = st.fixed_dictionaries(
    {"name": st.sampled_from(("a", "b", "A"))},
    optional={
        "image": st.sampled_from(("i", "i:1", " i")),
        "resources": resources,
        "ports": st.just([{"containerPort": 80}]),
        "livenessProbe": st.just({"httpGet": {"port": 80}}),
    },
)
specs = st.fixed_dictionaries(
    {},
    optional={
        "containers": st.lists(containers, max_size=2),
        "initContainers": st.lists(containers, max_size=1),
        "volumes": st.sampled_from(([], [{"name": "v"}], [{"name": "v", "secret": {"secretName": "s"}}])),
        "tolerations": st.sampled_from(([], [{"key": "k"}], [{"operator": "Exists"}])),
        "runtimeClassName": st.sampled_from(("heavy", "lacking")),
        "hostNetwork": st.booleans(),
        "schedulingGates": st.just([{"name": "g"}]),
        "resources": resources,
    },
)
writes = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(("default", "limited"))), min_size=1, max_size=6
)
LIMITS: dict[str, Any] = {"type": "Container", "default": {"cpu": "2"}, "defaultRequest": {"memory": "1Mi"}}
HEAVY: dict[str, Any] = {
    "metadata": {"name": "heavy"},
    "handler": "h",
    "overhead": {"podFixed": {"cpu": "1"}},
}


def new_store() -> Store:
    store = Store(HandClock(), random.Random(1), admission=ClusterAdmission(disabled=("ServiceAccount",)))
    create_bootstrap_objects(store)
    store.create(c.NAMESPACES, {"metadata": {"name": "limited"}})
    store.create(c.LIMIT_RANGES, {"metadata": {"name": "l"}, "spec": {"limits": [LIMITS]}}, "limited")
    store.create(c.RUNTIME_CLASSES, HEAVY)
    return store


def forget() -> None:
    podspec._specs.clear()
    qos._class_of.cache_clear()


def outcome(store: Store, name: str, namespace: str, spec: Any) -> Any:
    """The stored object without the server's own fields, or why it is refused."""
    body = {"metadata": {"name": name, "labels": {"own": name}}, "spec": copy.deepcopy(spec)}
    try:
        made = store.create(c.PODS, body, namespace)
    except (ApiError, QuantityError, TypeError) as error:
        return type(error), str(error), getattr(error, "details", None)
    metadata = {k: v for k, v in made["metadata"].items() if k not in ("uid", "resourceVersion")}
    return {**made, "metadata": metadata}


@given(st.lists(specs, min_size=3, max_size=3), writes)
def test_a_pod_is_admitted_as_if_it_were_the_first_of_its_template(
    templates: list[Any], writes: list[tuple[int, str]]
) -> None:
    forget()
    store, made = new_store(), []
    for number, (template, namespace) in enumerate(writes):
        shared = outcome(store, f"p{number}", namespace, templates[template])
        made.append((shared, copy.deepcopy(shared)))
    for number, (template, namespace) in enumerate(writes):
        forget()
        alone = outcome(new_store(), f"p{number}", namespace, templates[template])
        assert made[number][1] == alone
    assert all(now == then for now, then in made)


def test_pods_of_a_template_share_their_containers() -> None:
    store = new_store()
    spec = {"containers": [{"name": "a", "image": "i", "terminationMessagePolicy": "File"}]}
    first, second = (outcome(store, name, "default", spec) for name in ("p0", "p1"))
    assert first["spec"]["containers"] is second["spec"]["containers"]
    limited = outcome(store, "p2", "limited", spec)
    assert limited["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "2"}
    assert first["spec"]["containers"][0]["resources"] == {}
