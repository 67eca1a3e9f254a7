"""Files of a released version are accepted by this one: data directories, configuration, leases.

The folder of a release has the files it wrote; docs/releasing.md describes when one is added.
"""

import gzip
import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from client.election.candidates import NAME, NAMESPACE, World, timing
from localcluster.durable.lives import Life, everything
from localcluster.store.stores import pod
from stowplan import __version__
from stowplan.api.catalogue import LEASES, PODS
from stowplan.cli.main import stowplan
from stowplan.runtime.clock import VirtualClock, run

HERE = Path(__file__).parent
RELEASES = sorted(path.name for path in HERE.iterdir() if (path / "config.yaml").exists())


@pytest.fixture(params=RELEASES)
def left(request: pytest.FixtureRequest) -> Path:
    return HERE / str(request.param)


def unpacked(left: Path, folder: Path) -> Path:
    folder.mkdir()
    (folder / "store.db").write_bytes(gzip.decompress((left / "store.db.gz").read_bytes()))
    shutil.copy(left / "committed", folder / "committed")
    return folder


def test_there_is_a_folder_for_this_version() -> None:
    assert __version__ in RELEASES


def test_a_data_directory_opens_with_all_that_was_in_it_and_goes_on(left: Path, tmp_path: Path) -> None:
    folder = unpacked(left, tmp_path / "data")
    life = Life(folder)
    found = {
        (each["kind"], each["metadata"]["name"]): each
        for objects in everything(life.store).values()
        for each in objects
    }
    assert found["Greeting", "first"]["spec"] == {"name": "world"}
    assert found["Node", "node-0"]["status"]["allocatable"]["cpu"] == "4"
    assert found["Deployment", "web"]["spec"]["replicas"] == 2
    assert found["Pod", "a"]["metadata"]["labels"] == {"app": "web", "tier": "front"}
    assert ("Pod", "b") not in found
    last = max(int(each["metadata"]["resourceVersion"]) for each in found.values())
    created = life.store.create(PODS, pod("new"))
    assert int(created["metadata"]["resourceVersion"]) > last
    life.end()
    again = Life(folder)
    assert again.store.get(PODS, "default", "new") == created
    again.end()


def test_its_configuration_validates(left: Path) -> None:
    done = CliRunner().invoke(stowplan, ["config", "validate", str(left / "config.yaml")])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    "more",
    [{}, {"strategy": "OldestEmulationVersion", "preferredHolder": "other"}, {"addedLater": {"x": 1}}],
    ids=["as it was", "coordinated", "with fields of a later version"],
)
def test_a_lease_that_another_version_holds_is_respected_until_it_expires(
    left: Path, more: dict[str, object]
) -> None:
    lease = json.loads((left / "lease.json").read_text())
    lease["spec"] |= more
    holder = lease["spec"]["holderIdentity"]

    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        world.store.create(LEASES, lease)
        elector = world.elector(timing=timing())
        began = clock.now()
        await elector.acquire()
        taken = world.store.get(LEASES, NAMESPACE, NAME)["spec"]
        assert clock.now() - began >= lease["spec"]["leaseDurationSeconds"]
        assert (taken["holderIdentity"], taken["leaseTransitions"]) == (elector.identity, 4)
        assert elector.identity != holder

    run(main)
