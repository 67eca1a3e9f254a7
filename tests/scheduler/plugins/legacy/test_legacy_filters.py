"""Predicates that became plugins of ours: which nodes they reject, and why."""

import pytest
from msgspec.structs import replace

from scheduler.plugins.answers import verdicts
from scheduler.plugins.legacy.asking import kept_off, service, world
from stowplan.api.node import NodeCondition
from stowplan.api.pod import Cinder, Volume
from stowplan.scheduler.framework.status import Code
from stowplan.testing import NodeBuilder, PodBuilder, node, pod

NOT_READY = "node(s) were not ready"
OUT_OF_DISK = "node(s) were out of disk space"
NO_NETWORK = "node(s) had unavailable network"
CORDONED = "node(s) were unschedulable"
TAINTED = "node(s) had taints that the pod didn't tolerate"
UNLABELLED = "node(s) didn't have the requested labels"
ELSEWHERE = "node(s) didn't match service affinity"


def having(name: str, **conditions: str) -> NodeBuilder:
    """A node with some conditions."""
    built = node(name).obj()
    found = tuple(NodeCondition(type=kind, status=status) for kind, status in conditions.items())
    return NodeBuilder(replace(built, status=replace(built.status, conditions=found)))


@pytest.mark.parametrize(
    ("conditions", "reasons"),
    [
        ({}, ()),
        ({"Ready": "True"}, ()),
        ({"Ready": "False"}, (NOT_READY,)),
        ({"Ready": "Unknown"}, (NOT_READY,)),
        ({"OutOfDisk": "False"}, ()),
        ({"OutOfDisk": "Unknown"}, (OUT_OF_DISK,)),
        ({"NetworkUnavailable": "True"}, (NO_NETWORK,)),
        ({"MemoryPressure": "True", "Ready": "True"}, ()),
        (
            {"Ready": "False", "OutOfDisk": "True", "NetworkUnavailable": "Unknown"},
            (NOT_READY, OUT_OF_DISK, NO_NETWORK),
        ),
    ],
    ids=str,
)
def test_a_node_whose_conditions_are_not_as_they_should_be_is_left_alone(
    conditions: dict[str, str], reasons: tuple[str, ...]
) -> None:
    made = world("NodeCondition", [having("n", **conditions)])
    assert kept_off(made, pod("p")) == ({"n": reasons} if reasons else {})


def test_to_check_node_condition_a_cordoned_node_is_closed_to_everybody() -> None:
    made = world("NodeCondition", [having("n", Ready="False").unschedulable()])
    tolerant = pod("p").tolerates()
    assert kept_off(made, tolerant) == {"n": (NOT_READY, CORDONED)}
    assert verdicts(made, tolerant)["n"].code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE


BEST_EFFORT = pod("p")
PRESSURES = [
    ("NodeMemoryPressure", "MemoryPressure", BEST_EFFORT, "node(s) had memory pressure"),
    (
        "NodeMemoryPressure",
        "MemoryPressure",
        BEST_EFFORT.requests({"example.com/gpu": 1}),
        "node(s) had memory pressure",
    ),
    ("NodeMemoryPressure", "MemoryPressure", BEST_EFFORT.requests(cpu=0), "node(s) had memory pressure"),
    ("NodeMemoryPressure", "MemoryPressure", pod("p").requests(cpu="1m"), None),
    ("NodeMemoryPressure", "MemoryPressure", pod("p").limits(memory="1Mi"), None),
    ("NodeMemoryPressure", "DiskPressure", BEST_EFFORT, None),
    ("NodeDiskPressure", "DiskPressure", BEST_EFFORT, "node(s) had disk pressure"),
    ("NodeDiskPressure", "DiskPressure", pod("p").requests(cpu="1"), "node(s) had disk pressure"),
    ("NodePIDPressure", "PIDPressure", pod("p").requests(cpu="1"), "node(s) had pid pressure"),
]


@pytest.mark.parametrize(("plugin", "condition", "wanting", "reason"), PRESSURES)
def test_a_node_under_pressure_is_left_alone(
    plugin: str, condition: str, wanting: PodBuilder, reason: str | None
) -> None:
    nodes = [having("pressed", **{condition: "True"}), having("unsure", **{condition: "Unknown"}), node("n")]
    assert kept_off(world(plugin, nodes), wanting) == ({} if reason is None else {"pressed": (reason,)})


def test_a_change_of_conditions_is_seen_at_once() -> None:
    made = world("NodeDiskPressure", [node("n")])
    assert kept_off(made, pod("p")) == {}
    made.add(having("n", DiskPressure="True"))
    assert kept_off(made, pod("p")) == {"n": ("node(s) had disk pressure",)}
    made.remove(having("n"))
    made.add(node("n"), *(node(f"n{number}") for number in range(70)))
    assert kept_off(made, pod("p")) == {}


def test_only_taints_that_drive_pods_away_count_for_no_execute_taints() -> None:
    nodes = [
        node("plain"),
        node("closed").taint("a", effect="NoSchedule"),
        node("avoided").taint("a", effect="PreferNoSchedule"),
        node("deadly").taint("a", effect="NoExecute"),
    ]
    made = world("NoExecuteTaints", nodes)
    assert kept_off(made, pod("p")) == {"deadly": (TAINTED,)}
    assert kept_off(made, pod("p").tolerates("a", effect="NoSchedule")) == {"deadly": (TAINTED,)}
    assert kept_off(made, pod("p").tolerates("a", effect="NoExecute")) == {}


@pytest.mark.parametrize(
    ("present", "absent", "rejected"),
    [
        ([], [], set()),
        (["zone"], [], {"none", "retiring"}),
        (["zone", "disk"], [], {"none", "zoned", "retiring"}),
        ([], ["retiring"], {"retiring"}),
        (["zone"], ["disk"], {"none", "retiring", "both"}),
    ],
)
def test_labels_must_be_there_or_must_not_whatever_their_values(
    present: list[str], absent: list[str], rejected: set[str]
) -> None:
    nodes = [
        node("none"),
        node("zoned").labels(zone=""),
        node("both").labels(zone="a", disk="ssd"),
        node("retiring").labels(retiring="2020-01-01"),
    ]
    made = world("NodeLabel", nodes, args={"presentLabels": present, "absentLabels": absent})
    assert kept_off(made, pod("p")) == dict.fromkeys(rejected, (UNLABELLED,))


REGIONS = [
    node("a1").labels(region="a", rack="1"),
    node("a2").labels(region="a", rack="2"),
    node("b1").labels(region="b", rack="1"),
    node("bare"),
]
WEB = service("web", app="web")


@pytest.mark.parametrize(
    ("labels", "running", "wanting", "rejected"),
    [
        pytest.param(["region"], [], pod("p").labels(app="web"), set(), id="the first pod may go anywhere"),
        pytest.param(
            ["region"],
            [pod("x").labels(app="web").on("a1")],
            pod("p").labels(app="web"),
            {"b1", "bare"},
            id="the next ones go where the first is",
        ),
        pytest.param(
            ["region"],
            [pod("x").labels(app="web").on("a1").terminating()],
            pod("p").labels(app="web"),
            {"b1", "bare"},
            id="pods that are being deleted count",
        ),
        pytest.param(
            ["region", "rack"],
            [pod("x").labels(app="web").on("a1")],
            pod("p").labels(app="web"),
            {"a2", "b1", "bare"},
            id="all the labels must match",
        ),
        pytest.param(
            ["region", "rack"],
            [pod("x").labels(app="web").on("a1")],
            pod("p").labels(app="web").node_selector(region="b"),
            {"a1", "a2", "bare"},
            id="what the pod itself demands goes first",
        ),
        pytest.param(
            ["region"],
            [pod("x").labels(app="web").on("bare")],
            pod("p").labels(app="web"),
            set(),
            id="a node without the label says nothing",
        ),
        pytest.param(
            ["region"],
            [pod("x").labels(app="db").on("a1")],
            pod("p").labels(app="db"),
            set(),
            id="pods of no service are not kept together",
        ),
        pytest.param(
            ["region"],
            [pod("x").labels(app="web").on("a1")],
            pod("p").labels(app="web", tier="x"),
            set(),
            id="siblings have all labels of the new pod",
        ),
        pytest.param(
            ["region"],
            [pod("x").labels(app="web").on("a1").namespace("other")],
            pod("p").labels(app="web"),
            set(),
            id="pods of other namespaces are no siblings",
        ),
        pytest.param(
            ["region"],
            [pod("x").labels(app="web").on("b1"), pod("y").labels(app="web").on("a2")],
            pod("p").labels(app="web"),
            {"b1", "bare"},
            id="of several nodes the first by name decides",
        ),
    ],
)
def test_pods_of_a_service_go_where_the_labels_are_those_of_their_siblings_nodes(
    labels: list[str], running: list[PodBuilder], wanting: PodBuilder, rejected: set[str]
) -> None:
    made = world("ServiceAffinity", REGIONS, running, args={"affinityLabels": labels}, objects=[WEB])
    assert kept_off(made, wanting) == dict.fromkeys(rejected, (ELSEWHERE,))


def test_a_service_that_comes_and_goes_binds_its_pods_and_frees_them() -> None:
    made = world(
        "ServiceAffinity",
        REGIONS,
        [pod("x").labels(app="web").on("a1")],
        args={"affinityLabels": ["region"]},
    )
    wanting = pod("p").labels(app="web")
    assert kept_off(made, wanting) == {}
    made.add(WEB)
    assert kept_off(made, wanting).keys() == {"b1", "bare"}
    made.remove(WEB)
    assert kept_off(made, wanting) == {}


def with_disks(built: PodBuilder, *names: str) -> PodBuilder:
    volumes = tuple(Volume(name=name, cinder=Cinder(volume_id=name)) for name in names)
    return built.spec(volumes=volumes)


@pytest.mark.parametrize(
    ("limit", "most", "wanted", "fits"),
    [
        (None, 0, ["new"], True),
        (None, 2, ["new"], False),
        (None, 2, ["one"], True),
        (None, 3, ["one", "new"], True),
        ("2", 9, ["new"], False),
        ("3", 1, ["new"], True),
    ],
    ids=str,
)
def test_a_node_takes_so_many_cinder_disks_and_each_counts_once(
    limit: str | None, most: int, wanted: list[str], fits: bool
) -> None:
    built = node("n") if limit is None else node("n").allocatable({"attachable-volumes-cinder": limit})
    running = [
        with_disks(pod("x").on("n"), "one", "two"),
        with_disks(pod("y").on("n"), "one"),
    ]
    made = world("MaxCinderVolumeCount", [built], running, args={"maxVolumes": most})
    full = {"n": ("node(s) exceed max volume count",)}
    assert kept_off(made, with_disks(pod("p"), *wanted)) == ({} if fits else full)


def test_without_any_word_a_node_takes_256_cinder_disks() -> None:
    running = [with_disks(pod("x").on("n"), *(f"disk-{number}" for number in range(255)))]
    made = world("MaxCinderVolumeCount", [node("n")], running)
    assert kept_off(made, with_disks(pod("p"), "new")) == {}
    assert kept_off(made, with_disks(pod("p"), "new", "another")).keys() == {"n"}
