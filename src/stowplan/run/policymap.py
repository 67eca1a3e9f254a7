"""Reading a Policy from a ConfigMap of the cluster that is to be scheduled."""

import asyncio
import random
from collections.abc import Mapping
from typing import Final

from stowplan.api.catalogue import CONFIG_MAPS
from stowplan.api.status import ApiError
from stowplan.client import Client
from stowplan.client.http import AccessError, HttpClient, Server
from stowplan.clock import Clock
from stowplan.config.legacy import policy_in_configmap
from stowplan.config.load import ConfigError
from stowplan.gocompat.durations import Duration
from stowplan.run.clients import user_agent
from stowplan.run.legacyoptions import ConfigMapRef

READ_WITHIN: Final = Duration.of_seconds(10)
"""How long the API server is waited for."""


def policy_at_start(server: Server, ref: ConfigMapRef, clock: Clock, environ: Mapping[str, str]) -> str:
    """The text of a Policy, read before there is anything else to do. Raises ConfigError."""

    async def read() -> str:
        rng = random.Random(random.SystemRandom().getrandbits(64))
        async with HttpClient(
            server, clock=clock, rng=rng, user_agent=user_agent(), timeout=READ_WITHIN, environ=environ
        ) as client:
            return await read_policy(client, ref)

    try:
        return asyncio.run(read())
    except AccessError as error:
        raise ConfigError("client", str(error)) from None


async def read_policy(client: Client, ref: ConfigMapRef) -> str:
    """The text of a Policy. Raises ConfigError."""
    try:
        found = await client.get(CONFIG_MAPS, ref.namespace, ref.name)
    except ApiError as error:
        raise ConfigError("read", f"couldn't get policy config map {ref}: {error.message}") from None
    data = found.get("data")
    return policy_in_configmap(data if isinstance(data, dict) else {}, str(ref))
