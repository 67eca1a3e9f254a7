"""Stories that many tests look at are lived once."""

import asyncio

import pytest

from server.process.process_lives import Ended, Lives, leader_and_standby, without_election


@pytest.fixture(scope="session")
def lives(tmp_path_factory: pytest.TempPathFactory) -> Lives:
    return asyncio.run(leader_and_standby(tmp_path_factory.mktemp("lives")))


@pytest.fixture(scope="session")
def unelected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ended]:
    return asyncio.run(without_election(tmp_path_factory.mktemp("unelected")))
