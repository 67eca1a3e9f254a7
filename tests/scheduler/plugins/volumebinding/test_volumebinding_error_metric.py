"""The metric of volumes that could not be looked for, reserved or bound."""

from scheduler.live_scheduler import World, live
from scheduler.plugins.volumebinding.claimed_volumes import (
    add_claim,
    add_user,
    change_claim,
    looked_after,
    two_nodes,
    volume_errors,
)
from scheduler.plugins.volumebinding.servers import Server, with_server
from scheduler.plugins.volumebinding.storageobjects import claim, storage_class, using
from stowplan.localcluster.controllers.storage.provisioner import ProvisionerBehaviour, ProvisionerSettings

STAGES = ("predicate", "assume", "bind")


def errors(world: World) -> dict[str, int]:
    return {stage: volume_errors(world, stage) for stage in STAGES if volume_errors(world, stage)}


def test_a_claim_that_makes_no_sense_is_an_error_of_looking_for_volumes() -> None:
    async def story(world: World) -> None:
        add_claim(world, "static")
        nonsense = {"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}
        change_claim(world, {"spec": {"selector": nonsense}})
        await add_user(world)
        assert world.condition("p")["reason"] == "SchedulerError"
        assert errors(world) == {"predicate": 1}

    live(story, before=two_nodes)


def test_a_claim_that_changes_before_it_is_reserved_is_an_error_of_assuming() -> None:
    wanted = claim("c", class_name="maker")

    async def main(server: Server) -> None:
        await server.settled()
        evaluation = server.framework.evaluate(server.table.info(using("p", "c")))
        server.change(wanted, spec={"storageClassName": "maker"})
        await server.settled()
        status = server.lifecycle.reserve(evaluation.cycle, evaluation.cycle.pod, "b")
        assert "is out of sync" in status.message
        assert server.errors == {"assume": 1}

    with_server([storage_class("maker", provisioner="csi.example.com"), wanted], main)


def test_a_volume_that_is_not_made_is_an_error_of_binding_each_time() -> None:
    async def story(world: World) -> None:
        async with looked_after(
            world, ProvisionerSettings(ProvisionerBehaviour(0.5, "no space left", failures=2))
        ):
            add_claim(world, "dynamic")
            await world.settle(1)
            await add_user(world)
            await world.settle(15)
            assert world.node_of("p")
            assert errors(world) == {"bind": 2}

    live(story, before=two_nodes)


def test_a_pod_that_simply_does_not_fit_is_no_error() -> None:
    async def story(world: World) -> None:
        add_claim(world, "static")
        await add_user(world)
        assert "didn't find available persistent volumes" in world.message("p")
        assert errors(world) == {}

    live(story, before=two_nodes)
