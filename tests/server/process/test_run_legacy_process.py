"""`stowplan run` with the flags of earlier releases: their locks, and Policies that change while it runs."""

import asyncio
import json
import signal
from pathlib import Path

from server.process.processes import LEASE, Cluster, cluster
from stowplan.api.catalogue import CONFIG_MAPS, ENDPOINTS, LEASES, Resource
from waiting import eventually

FLAGS = (
    "--leader-elect-lease-duration=3s",
    "--leader-elect-renew-deadline=2s",
    "--leader-elect-retry-period=200ms",
    "-v=2",
)
ELECTED = "Successfully acquired lease"
ANNOTATION = "control-plane.alpha.kubernetes.io/leader"


def lock(kind: str) -> str:
    return f"--leader-elect-resource-lock={kind}"


def holder(place: Cluster, resource: Resource) -> str:
    """Holder of a lock, by the object of one kind."""
    found = [one for one in place.store.list(resource, LEASE[0]).items if one["metadata"]["name"] == LEASE[1]]
    if not found:
        return ""
    if resource is LEASES:
        return str(found[0]["spec"].get("holderIdentity", ""))
    record = json.loads(found[0]["metadata"]["annotations"][ANNOTATION])
    return str(record["holderIdentity"])


def test_old_and_new_instances_exclude_each_other_while_the_lock_is_changed(tmp_path: Path) -> None:
    """From Endpoints over both to Leases, one instance after the other, pods coming all the time."""

    async def story() -> None:
        async with cluster(tmp_path) as place:
            place.add_nodes(2)
            leader = await place.start(*FLAGS, lock("endpoints"))
            await leader.says(ELECTED)
            for number, kind in enumerate(("endpointsleases", "leases")):
                follower = await place.start(*FLAGS, lock(kind))
                await follower.says("Attempting to acquire leader lease")
                place.add_pod(f"p{number}")
                await place.bound(f"p{number}")
                await asyncio.sleep(1)
                assert ELECTED not in follower.log
                leader.signal(signal.SIGTERM)
                assert await leader.ends() == 0
                await follower.says(ELECTED)
                held = (holder(place, ENDPOINTS), holder(place, LEASES))
                assert (bool(held[0]), bool(held[1])) == (kind == "endpointsleases", True)
                leader = follower
            place.add_pod("last")
            await place.bound("last")
            await place.told_once("p0", "p1", "last")

    asyncio.run(story())


def policy(*predicates: str) -> str:
    named = [{"name": name} for name in predicates]
    return json.dumps({"kind": "Policy", "apiVersion": "v1", "predicates": named, "priorities": []})


TIGHT = policy("GeneralPredicates", "PodToleratesNodeTaints")
LOOSE = policy("PodToleratesNodeTaints")


def test_a_policy_file_is_followed(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path) as place:
            place.add_nodes(1, cpu="50m")
            path = tmp_path / "policy.cfg"
            path.write_text(TIGHT)
            scheduler = await place.start(f"--policy-config-file={path}", "--leader-elect=false", "-v=2")
            place.add_pod("p")
            await scheduler.says("Unable to schedule pod")
            assert not place.node_of("p")
            path.write_text(LOOSE)
            await scheduler.says("Reloaded configuration")
            await place.bound("p")

    asyncio.run(story())


def test_a_policy_in_a_config_map_is_read_at_the_start_and_on_request(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path) as place:
            place.add_nodes(1, cpu="50m")
            flags = ("--policy-configmap=scheduler-policy", "--leader-elect=false", "-v=2")
            missing = await place.start(*flags)
            assert await missing.ends() == 1
            said = "couldn't get policy config map kube-system/scheduler-policy: "
            assert (
                f'"command failed" err="{said}configmaps \\"scheduler-policy\\" not found"'
                in missing.lines[-1]
            )
            metadata = {"name": "scheduler-policy", "namespace": "kube-system"}
            made = place.store.create(CONFIG_MAPS, {"metadata": metadata, "data": {"policy.cfg": TIGHT}})
            scheduler = await place.start(*flags)
            place.add_pod("p")
            await scheduler.says("Unable to schedule pod")
            place.store.update(CONFIG_MAPS, {**made, "data": {"policy.cfg": LOOSE}})
            scheduler.signal(signal.SIGHUP)
            await scheduler.says("Reloaded configuration")
            await place.bound("p")
            made = place.store.get(CONFIG_MAPS, "kube-system", "scheduler-policy")
            place.store.update(CONFIG_MAPS, {**made, "data": {"other": LOOSE}})
            scheduler.signal(signal.SIGHUP)
            refused = await scheduler.says("Configuration was not reloaded")
            assert "policy.cfg" in refused
            await eventually(lambda: place.scheduled("p") == 1, lambda: "nobody was told")

    asyncio.run(story())
