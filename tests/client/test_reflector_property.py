"""Under cut watches, forgotten versions, errors and delays a reflector ends up knowing what there is."""

import asyncio
import random
from collections.abc import Mapping

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from client.reflected_store import Checked, pod
from effort import examples
from stowplan.api import catalogue as c
from stowplan.api.pod import Pod
from stowplan.api.requests import DeleteOptions, Selection
from stowplan.client import ObjectStore, Reflector
from stowplan.localcluster.client import InProcessClient
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import VirtualClock, run
from stowplan.testing.faults import Faults, FaultyClient

ACTIVE = Selection.parse("", "status.phase!=Succeeded")
PROBABILITY = st.sampled_from((0.0, 0.05, 0.3))

faults = st.builds(
    Faults,
    refused=PROBABILITY,
    lost=PROBABILITY,
    cut=PROBABILITY,
    forgotten=PROBABILITY,
    lifetime=st.sampled_from((None, 0.5, 20.0)),
    delay=st.sampled_from((0.0, 2.0)),
)


def change_something(store: Store, rng: random.Random) -> None:
    """One random change of one of a few pods."""
    name = f"p{rng.randrange(8)}"
    if not any(obj["metadata"]["name"] == name for obj in store.list(c.PODS).items):
        body = pod(name)
        if rng.random() < 0.1:
            body["spec"] = {"priority": "unreadable"}
        store.create(c.PODS, body)
        return
    match rng.randrange(4):
        case 0:
            store.delete(c.PODS, "d", name, DeleteOptions(0))
        case 1:
            phase = rng.choice(("Running", "Pending", "Succeeded"))
            store.patch(c.PODS, "d", name, {"status": {"phase": phase}}, subresource="status")
        case 2:
            store.patch(c.PODS, "d", name, {"metadata": {"labels": {"v": str(store.version)}}})
        case _:
            store.delete(c.PODS, "d", name, DeleteOptions(0))
            store.create(c.PODS, pod(name))


async def live_through(clock: VirtualClock, seed: int, faults: Faults, stream: bool, buffer: int) -> None:
    rng = random.Random(seed)
    store = Store(clock, random.Random(seed), history=rng.choice((3, 30, 1000)))
    client = FaultyClient(InProcessClient(store, buffer=buffer), faults, random.Random(seed + 1))
    handler = Checked()
    reflector = Reflector(
        client,
        c.PODS,
        Pod,
        handler,
        clock=clock,
        rng=random.Random(seed + 2),
        report=lambda problem: None,
        selection=ACTIVE,
        stream=stream,
    )
    task = asyncio.create_task(reflector.run())
    for _ in range(rng.randrange(1, 60)):
        await asyncio.sleep(rng.choice((0, 0, 0.01, 1, 20)))
        for _ in range(rng.choice((1, 1, 1, 20))):
            change_something(store, rng)
        if rng.random() < 0.1:
            store.send_bookmarks()
    faults.stop()
    await asyncio.sleep(300)
    assert not task.done(), task
    compare(store, reflector, handler)
    task.cancel()


def compare(store: Store, reflector: Reflector[Pod], handler: Checked) -> None:
    stored = {f"d/{obj['metadata']['name']}": obj for obj in store.list(c.PODS, selection=ACTIVE).items}
    readable = {
        key: obj["metadata"]["resourceVersion"]
        for key, obj in stored.items()
        if obj["spec"].get("priority") != "unreadable"
    }
    known = {key: obj.metadata.resource_version for key, obj in reflector.objects.items()}
    assert {key: known[key] for key in known if key in readable} == readable
    assert known.keys() <= stored.keys()
    assert handler.objects == dict(reflector.objects)


@settings(max_examples=examples(60))
@given(
    seed=st.integers(0, 2**32),
    faults=faults,
    stream=st.booleans(),
    buffer=st.sampled_from((3, 30, 1000)),
)
def test_in_the_end_the_store_is_the_stores(seed: int, faults: Faults, stream: bool, buffer: int) -> None:
    async def main(clock: VirtualClock) -> None:
        await live_through(clock, seed, faults, stream, buffer)

    run(main)


def test_a_reflector_that_forgets_what_went_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proof that the test above can fail."""

    def careless(self: ObjectStore[Pod], wanted: Mapping[str, Pod], unreadable: object = ()) -> list[None]:
        for key, obj in wanted.items():
            self.put(key, obj)
        return []

    monkeypatch.setattr(ObjectStore, "replace", careless)

    @settings(max_examples=60, phases=[Phase.generate], derandomize=True, database=None)
    @given(seed=st.integers(0, 2**32))
    def search(seed: int) -> None:
        async def main(clock: VirtualClock) -> None:
            await live_through(clock, seed, Faults(forgotten=0.3), False, 1000)

        run(main)

    with pytest.raises(AssertionError):
        search()


def test_a_run_with_faults_repeats_from_its_seed() -> None:
    def told() -> list[str]:
        handler = Checked()

        async def main(clock: VirtualClock) -> None:
            store = Store(clock, random.Random(1))
            faulty = FaultyClient(
                InProcessClient(store), Faults(0.3, 0.1, 0.2, 0.1, 5.0, 1.0), random.Random(2)
            )
            reflector = Reflector(
                faulty, c.PODS, Pod, handler, clock=clock, rng=random.Random(3), report=handler.told.append
            )
            task = asyncio.create_task(reflector.run())
            rng = random.Random(4)
            for _ in range(100):
                change_something(store, rng)
                await asyncio.sleep(rng.random())
            handler.told.append(str(clock.now()))
            task.cancel()

        run(main)
        return handler.told

    assert told() == told()
