"""`stowplan run` with the gate CoordinatedLeaderElection: the server picks the leader."""

import asyncio
import random
from pathlib import Path

from server.process.processes import cluster
from stowplan.api.catalogue import LEASE_CANDIDATES
from stowplan.localcluster.client import InProcessClient
from stowplan.localcluster.controllerruntime.controller import ControllerContext, ControllerManager
from stowplan.localcluster.controllers.leaderelection import LeaderElectionController
from stowplan.runtime.clock import RealClock
from waiting import eventually

FLAGS = (
    "--feature-gates=CoordinatedLeaderElection=true",
    "--leader-elect-lease-duration=4s",
    "--leader-elect-renew-deadline=2s",
    "--leader-elect-retry-period=300ms",
    "-v=2",
)


def test_an_instance_of_an_older_version_takes_over(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path) as place:
            context = ControllerContext.of(InProcessClient(place.store), RealClock(), random.Random(1))
            async with ControllerManager(context, [LeaderElectionController(context)]).running():
                place.add_nodes(1)
                newer = await place.start(*FLAGS, "--emulated-version=1.37")
                await newer.says("Created lease candidate")
                (offered,) = (one["spec"] for one in place.store.list(LEASE_CANDIDATES, "kube-system").items)
                assert offered["renewTime"]
                assert {name: offered[name] for name in offered if name != "renewTime"} == {
                    "leaseName": "kube-scheduler",
                    "binaryVersion": "1.37.0",
                    "emulationVersion": "1.37.0",
                    "strategy": "OldestEmulationVersion",
                }
                place.add_pod("first")
                await place.bound("first")
                older = await place.start(*FLAGS, "--emulated-version=1.36")
                await eventually(
                    lambda: "preferredHolder" in place.lease() or place.lease()["holderIdentity"] == "",
                    lambda: f"the lease is {place.lease()}",
                )
                assert await newer.ends() == 1
                await newer.says("Leaderelection lost")
                place.add_pod("second")
                await place.bound("second")
                await older.says("Successfully acquired lease")

    asyncio.run(story())
