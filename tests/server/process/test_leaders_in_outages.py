"""A leader whose API server goes: it stops, keeps what it knows, and is there again with a standby."""

import asyncio
import signal
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from client.http.served_stores import node, pod, serving
from server.process.outage_stories import Bindings
from server.process.processes import RunningScheduler, begin
from stowplan.api.catalogue import LEASES, NODES, PODS
from stowplan.localcluster.store import Store
from stowplan.testing.proxy import OutageProxy
from waiting import eventually

RETRY = 0.5
FLAGS = (
    "--leader-elect-lease-duration=3s",
    "--leader-elect-renew-deadline=2s",
    f"--leader-elect-retry-period={RETRY * 1000:.0f}ms",
    "--secure-port=0",
)
SLACK = 15.0
"""Seconds that everything may take beyond a retry period: a probe a second, a slow machine."""


def leads(one: RunningScheduler) -> int:
    return one.log.count("Successfully acquired lease")


def _have_led_more_than(times: int, schedulers: Sequence[RunningScheduler]) -> bool:
    return sum(map(leads, schedulers)) > times


def holder(store: Store) -> str:
    found = store.list(LEASES, "kube-system").items
    return str(found[0]["spec"]["holderIdentity"]) if found else ""


def test_a_leader_and_its_standby_outlive_an_outage_and_one_schedules_within_a_retry_period(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with serving(tmp_path) as (store, server, kubeconfig), OutageProxy(server.port) as proxy:
            kubeconfig.write_text(kubeconfig.read_text().replace(f":{server.port}", f":{proxy.port}"))
            bindings = Bindings()
            bindings.follow(store)
            store.create(NODES, node("n"))
            pair: list[RunningScheduler] = []
            try:
                for _ in range(2):
                    pair.append(await begin(f"--kubeconfig={kubeconfig}", *FLAGS))
                    await pair[-1].says("Attempting to acquire leader lease")
                await eventually(lambda: sum(map(leads, pair)) == 1, lambda: pair[0].log)
                store.create(PODS, pod("early"))
                await bindings.all_of(["early"], lambda: pair[0].log)
                for number, cut in enumerate((OutageProxy.refuse, OutageProxy.vanish)):
                    led = [leads(one) for one in pair]
                    leader = pair[led.index(max(led))]
                    cut(proxy)
                    await asyncio.sleep(6)
                    store.create(PODS, pod(f"p{number}"))
                    assert all(one.process.returncode is None for one in pair), "nobody ends for an outage"
                    await proxy.restore()
                    returned = asyncio.get_running_loop().time()
                    await bindings.all_of([f"p{number}"], lambda: pair[0].log + pair[1].log)
                    took = bindings.at[f"p{number}"][0] - returned
                    assert took < RETRY + SLACK, pair[0].log + pair[1].log
                    await eventually(partial(_have_led_more_than, sum(led), pair), lambda: pair[0].log)
                    if leads(leader) == max(led):
                        assert await leader.ends() == 1, "another leads now"
                        break
                assert {name: len(at) for name, at in bindings.at.items()} == dict.fromkeys(bindings.at, 1)
            finally:
                for one in pair:
                    await one.clear_away()

    asyncio.run(story())


def test_a_leader_alone_schedules_again_with_what_it_knows(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as (store, server, kubeconfig), OutageProxy(server.port) as proxy:
            kubeconfig.write_text(kubeconfig.read_text().replace(f":{server.port}", f":{proxy.port}"))
            bindings = Bindings()
            bindings.follow(store)
            store.create(NODES, node("n"))
            leader = await begin(f"--kubeconfig={kubeconfig}", *FLAGS, "-v=2")
            try:
                await leader.says("Successfully acquired lease")
                for number in range(2):
                    proxy.refuse()
                    await leader.says("Lost the lease while the API server is unreachable")
                    store.create(PODS, pod(f"p{number}"))
                    await proxy.restore()
                    await bindings.all_of([f"p{number}"], lambda: leader.log)
                    await eventually(partial(_have_led_more_than, number + 1, [leader]), lambda: leader.log)
                    leader.lines[:] = [line for line in leader.lines if "Lost the lease" not in line]
                assert leader.log.count("Caches populated") <= 21, "nothing is listed anew"
                leader.signal(signal.SIGTERM)
                assert await leader.ends() == 0
                assert holder(store) == ""
            finally:
                await leader.clear_away()

    asyncio.run(story())


def test_a_leader_that_was_followed_by_another_during_its_outage_ends(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as (_, server, kubeconfig), OutageProxy(server.port) as proxy:
            cut_off = tmp_path / "cut-off"
            cut_off.write_text(kubeconfig.read_text().replace(f":{server.port}", f":{proxy.port}"))
            leader = await begin(f"--kubeconfig={cut_off}", *FLAGS)
            standby: RunningScheduler | None = None
            try:
                await leader.says("Successfully acquired lease")
                standby = await begin(f"--kubeconfig={kubeconfig}", *FLAGS)
                await standby.says("Attempting to acquire leader lease")
                proxy.refuse()
                await standby.says("Successfully acquired lease")
                await leader.says("Lost the lease while the API server is unreachable")
                await proxy.restore()
                assert await leader.ends() == 1
                assert "Leaderelection lost" in leader.lines[-1]
                assert standby.process.returncode is None
            finally:
                for one in (leader, standby):
                    if one is not None:
                        await one.clear_away()

    asyncio.run(story())
