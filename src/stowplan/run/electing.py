"""A process's part in the election of who schedules, put together from its options."""

import random
from contextlib import AsyncExitStack

from stowplan.client import Writer
from stowplan.clock import Clock
from stowplan.config.load import ConfigError
from stowplan.config.types import LeaderElection
from stowplan.election import Announcer, ElectionError, Elector, Timing, identity, lock_for
from stowplan.logs import Journal
from stowplan.run.clients import Clients


async def set_up_election(
    stack: AsyncExitStack,
    clients: Clients,
    election: LeaderElection,
    *,
    announced_by: str,
    announced_with: Writer,
    hostname: str,
    clock: Clock,
    rng: random.Random,
    journal: Journal,
    announcements_within: float,
) -> Elector:
    """Who takes part in the election for this process, with a client of its own.

    Every change of hands is announced as an event, by a component of that name; when the stack is left, those
    still to be written have so many seconds. Raises ConfigError.
    """
    try:
        timing = Timing.of(election)
        client = await stack.enter_async_context(
            clients.client("leader-election", timeout=timing.request_timeout)
        )
        me = identity(hostname, rng)
        lock = lock_for(
            election.resource_lock, client, election.resource_namespace, election.resource_name, me
        )
    except ElectionError as error:
        raise ConfigError("election", str(error)) from None
    announcer = Announcer(
        announced_with, announced_by, clock=clock, rng=random.Random(rng.getrandbits(64)), journal=journal
    )
    stack.push_async_callback(announcer.drain, announcements_within)
    return Elector(
        lock,
        timing,
        clock=clock,
        rng=random.Random(rng.getrandbits(64)),
        journal=journal,
        announcer=announcer,
    )
