"""Objects may be given as such, by builders or as manifests, in every host; plugins look them up by kind."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from stowplan.api.decode import DecodeError, Given
from stowplan.framework import (
    Action,
    AnyObject,
    ClusterEvent,
    Cycle,
    EventRegistration,
    Handle,
    NodeRow,
    Plugin,
    PodInfo,
    Resource,
    Status,
    unschedulable,
)
from stowplan.scheduler.framework.status import PluginError
from stowplan.simulate import Cluster
from stowplan.testing import check_plugin, cluster, node, pod

PRICES = "prices.v1.example.com"


class Spec(msgspec.Struct, rename="camel"):
    per_hour: float


class Meta(msgspec.Struct):
    name: str


class Price(msgspec.Struct):
    metadata: Meta
    spec: Spec


def price(name: str, per_hour: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Price",
        "metadata": {"name": name, "uid": name},
        "spec": {"perHour": per_hour},
    }


@dataclass
class CheapArgs:
    highest: float = 2.0


class Cheap(Plugin[CheapArgs]):
    """A node costs what the custom resource of its name says."""

    def filter_node(self, cycle: Cycle, pod: PodInfo, node: NodeRow) -> Status | None:
        found = self.handle.objects(PRICES, Price).get(node.name)
        dear = found is not None and found.spec.per_hour > self.args.highest
        return unschedulable("node(s) cost too much") if dear else None

    def events(self) -> Sequence[EventRegistration]:
        return [
            EventRegistration(ClusterEvent(PRICES, Action.ADD | Action.UPDATE)),
            EventRegistration(ClusterEvent(Resource.NODE, Action.ADD)),
        ]


class Forgetful(Cheap):
    """Reads prices and never registered for them: in a scheduler there would be no informer."""

    def events(self) -> Sequence[EventRegistration]:
        return [EventRegistration(ClusterEvent(Resource.NODE, Action.ADD))]


def test_a_plugin_that_reads_custom_resources_is_tested_without_an_api_server() -> None:
    c = cluster([node("a"), node("b")], objects=[price("a", 3), price("b", 1)], plugins=[Cheap])
    assert c.schedule(pod("p")).node == "b"
    c.add(price("b", 5))
    assert "2 node(s) cost too much" in c.schedule(pod("q")).message
    c.remove(price("a", 3))
    assert c.schedule(pod("q")).node == "a"


def test_questions_find_them_too() -> None:
    given: list[Given] = [node("a"), node("b"), price("a", 3), price("b", 1), pod("p")]
    outcome = Cluster(given, plugins=[Cheap]).schedule()
    assert outcome.placed == {"default/p": "b"}


def test_an_object_that_is_not_of_the_type_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    c = cluster([node("a")], objects=[price("a", "much")], plugins=[Cheap])
    assert c.schedule(pod("p")).node == "a"
    assert "Price a was left out: Expected `float`, got `str` - at `$.spec.perHour`" in caplog.text


def test_the_untyped_object_has_all_fields() -> None:
    c = cluster(objects=[price("a", 3)], plugins=[Cheap])
    found = c.objects(PRICES)["a"]
    assert isinstance(found, AnyObject)
    assert found.data["spec"] == {"perHour": 3}


def test_a_kind_that_no_plugin_registered_for_is_not_there_as_in_a_scheduler() -> None:
    c = cluster([node("a")], objects=[price("a", 3)], plugins=[Forgetful])
    with pytest.raises(PluginError, match=f"objects of kind '{PRICES}' are not watched: register for its"):
        c.schedule(pod("p"))


def test_the_definition_of_a_resource_gives_its_plural() -> None:
    names = {"plural": "prices", "kind": "Tariff"}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "prices.example.com"},
        "spec": {"group": "example.com", "names": names},
    }
    c = cluster([node("a")], objects=[definition, price("a", 3) | {"kind": "Tariff"}], plugins=[Cheap])
    assert "1 node(s) cost too much" in c.schedule(pod("p")).message


def test_plugins_that_read_custom_resources_are_checked_with_them() -> None:
    class Spendthrift(Cheap):
        """Wrong only when there is a price."""

        def score_node(self, cycle: Cycle, pod: PodInfo, node: NodeRow) -> int:
            return 50 + 100 * len(self.handle.objects(PRICES))

    check_plugin(Spendthrift, examples=5)
    with pytest.raises(AssertionError, match="score-range"):
        check_plugin(Spendthrift, examples=5, objects=[price("n0", 1)])


HOSTS: list[Callable[..., Any]] = [
    lambda *given: Cluster(given),
    lambda *given: Cluster().add(*given),
    lambda *given: Cluster().schedule(given),
    lambda *given: cluster(objects=given),
    lambda *given: cluster().add(*given),
    lambda *given: cluster().schedule(*given),
]


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("wrong", [3, "n", node, None])
def test_what_is_no_object_is_refused_in_one_line(host: Callable[..., Any], wrong: Any) -> None:
    with pytest.raises(
        TypeError, match=r"^expected an object, a builder such as node\('n'\) or a manifest, got"
    ):
        host(wrong)


def test_a_manifest_has_a_kind_and_a_pod_to_schedule_is_a_pod() -> None:
    with pytest.raises(DecodeError, match="expected a map with the field `kind`"):
        Cluster([{"metadata": {"name": "a"}}])
    with pytest.raises(TypeError, match="expected pods to schedule, got Node n"):
        Cluster().schedule(node("n"))


def test_pods_may_be_manifests() -> None:
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    assert Cluster([node("n")]).schedule(manifest).placed == {"default/p": "n"}
    assert Cluster([node("n")]).schedule([pod("a"), manifest]).placed == {"default/a": "n", "default/p": "n"}


def test_the_handle_has_no_objects_without_a_host() -> None:
    table = cluster().table
    with pytest.raises(LookupError, match="this needs a running scheduler"):
        Handle(table, Cluster().settings.gates).objects(PRICES)
