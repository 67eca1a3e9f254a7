"""A process's part in the election of who schedules, put together from its options."""

import random
from contextlib import AsyncExitStack

from stowplan.clock import Clock
from stowplan.config.load import ConfigError
from stowplan.config.types import LeaderElection
from stowplan.election import Announcer, ElectionError, ElectionThread, Elector, Timing, identity, lock_for
from stowplan.logs import Journal
from stowplan.run.clients import Clients


def election_thread(
    clients: Clients,
    election: LeaderElection,
    *,
    announced_by: str,
    hostname: str,
    clock: Clock,
    rng: random.Random,
    journal: Journal,
    announcements_within: float,
) -> ElectionThread:
    """Who takes part in the election for this process, in a thread and with clients of its own.

    Every change of hands is announced as an event, by a component of that name; when the thread ends, those
    still to be written have so many seconds. Entering it raises ConfigError.
    """
    me = identity(hostname, rng)
    own = clients.for_thread(random.Random(rng.getrandbits(64)))
    announcing, pausing = (random.Random(rng.getrandbits(64)) for _ in range(2))

    async def set_up(stack: AsyncExitStack) -> Elector:
        try:
            timing = Timing.of(election)
            client = own.client("leader-election", timeout=timing.request_timeout)
            await stack.enter_async_context(client)
            lock = lock_for(
                election.resource_lock, client, election.resource_namespace, election.resource_name, me
            )
        except ElectionError as error:
            raise ConfigError("election", str(error)) from None
        writer = await stack.enter_async_context(own.client("scheduler"))
        announcer = Announcer(writer, announced_by, clock=clock, rng=announcing, journal=journal)
        stack.push_async_callback(announcer.drain, announcements_within)
        return Elector(
            lock,
            timing,
            clock=clock,
            rng=pausing,
            journal=journal,
            announcer=announcer,
            pause=client.pause,
            is_reachable=client.is_reachable,
        )

    return ElectionThread(set_up)
