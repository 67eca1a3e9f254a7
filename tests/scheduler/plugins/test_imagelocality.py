"""ImageLocality: scores by size and spread of images."""

from scheduler.plugins.answers import points
from stowplan.api.pod import Container, ImageVolume, Volume
from stowplan.testing import cluster, node, pod

MIB = 1024 * 1024


def test_images_count_by_size_and_by_the_share_of_nodes_that_have_them() -> None:
    nodes = [node("none"), node("half").image("app:1", 500 * MIB), node("all").image("app:1", 500 * MIB)]
    nodes[2] = nodes[2].image("big:latest", 6000 * MIB)
    world = cluster(nodes=nodes)
    third = 500 * 2 // 3
    only_app = 100 * (third - 23) // (1000 - 23)
    assert points(world, pod("p").image("app:1"), "ImageLocality") == {
        "none": 0,
        "half": only_app,
        "all": only_app,
    }
    assert points(world, pod("p").image("big"), "ImageLocality") == {"none": 0, "half": 0, "all": 100}


def test_images_of_init_containers_and_image_volumes_count_too() -> None:
    nodes = [node("none"), node("has").image("init:1", 1000 * MIB).image("data:1", 400 * MIB)]
    world = cluster(nodes=nodes)
    wanting = pod("p").image("main:1")
    assert points(world, wanting, "ImageLocality") == {"none": 0, "has": 0}
    wanting = wanting.spec(init_containers=(Container(name="i", image="init:1"),))
    assert points(world, wanting, "ImageLocality") == {"none": 0, "has": 100 * (500 - 23) // (2000 - 23)}
    wanting = wanting.spec(volumes=(Volume(name="v", image=ImageVolume(reference="data:1")),))
    assert points(world, wanting, "ImageLocality") == {"none": 0, "has": 100 * (700 - 23) // (3000 - 23)}


def test_in_1_36_image_volumes_do_not_raise_the_threshold() -> None:
    world = cluster(nodes=[node("none"), node("has").image("data:1", 1400 * MIB)], release="1.36")
    wanting = (
        pod("p").image("main:1").spec(volumes=(Volume(name="v", image=ImageVolume(reference="data:1")),))
    )
    assert points(world, wanting, "ImageLocality") == {"none": 0, "has": 100 * (700 - 23) // (1000 - 23)}


MIB = 1024**2


def test_an_image_of_500_mib_on_3_of_10_nodes_gives_12() -> None:
    nodes = [node(f"n{number}") for number in range(10)]
    nodes[:3] = [each.image("app:1", 500 * MIB) for each in nodes[:3]]
    found = points(cluster(nodes=nodes), pod("p").image("app:1"), "ImageLocality")
    assert found == {f"n{number}": 12 if number < 3 else 0 for number in range(10)}
