"""A server that is killed at any moment has, when it comes back, everything it ever said yes to."""

import http.client
import random
import threading
from functools import partial
from pathlib import Path
from typing import Any

from effort import examples
from localcluster.durable.served import Server, ask, watch
from waiting import PATIENCE, until

URL = "/api/v1/namespaces/default/configmaps"
ROUNDS = 3
NOBODY = http.client.HTTPException, OSError


class Writer(threading.Thread):
    """Creates, updates and deletes config maps of its own until there is no answer any more.

    `known` are the answers: the value, uid and version by name. `doubtful` is the one request that got no
    answer: a name and the value it is to have, None if it is to be deleted.
    """

    def __init__(self, number: int, seed: int) -> None:
        super().__init__()
        self.prefix = f"w{number}-"
        self.known: dict[str, tuple[str, str, int]] = {}
        self.doubtful: tuple[str, str | None] | None = None
        self.latest = 0
        self.answers = 0
        self.surprise: Any = None
        self.port = 0
        self._rng = random.Random(seed)
        self._count = 0

    def again(self, port: int) -> "Writer":
        """The same writer with all it knows, for the next server."""
        other = Writer(0, 0)
        other.__dict__.update({key: value for key, value in vars(self).items() if not key.startswith("_")})
        other._rng, other._count = self._rng, self._count
        other.port = port
        return other

    def run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        while self.surprise is None:
            try:
                self._step(connection)
            except NOBODY:
                return

    def _step(self, connection: http.client.HTTPConnection) -> None:
        self._count += 1
        name, value = f"{self.prefix}{self._rng.randrange(8)}", str(self._count)
        body = {"metadata": {"name": name}, "data": {"value": value, "more": "x" * self._rng.randrange(3000)}}
        if name not in self.known:
            self._written(name, value, 201, *self._try(connection, "POST", URL, name, value, body))
        elif self._rng.random() < 0.7:
            self._written(name, value, 200, *self._try(connection, "PUT", f"{URL}/{name}", name, value, body))
        else:
            code, told = self._try(connection, "DELETE", f"{URL}/{name}", name, None)
            if code != 200:
                self.surprise = told
            self.known.pop(name)

    def _try(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        name: str,
        value: str | None,
        *body: Any,
    ) -> tuple[int, dict[str, Any]]:
        self.doubtful = (name, value)
        answer = ask(connection, method, path, *body)
        self.doubtful = None
        self.answers += 1
        return answer

    def _written(self, name: str, value: str, expected: int, code: int, told: dict[str, Any]) -> None:
        if code != expected:
            self.surprise = (code, told)
            return
        metadata = told["metadata"]
        self.latest = int(metadata["resourceVersion"])
        self.known[name] = (value, metadata["uid"], self.latest)

    def check(self, found: dict[str, tuple[str, str, int]]) -> None:
        """Everything answered is there; the request in doubt has happened or not, and nothing else has."""
        mine = {name: state for name, state in found.items() if name.startswith(self.prefix)}
        if self.doubtful is not None:
            name, value = self.doubtful
            outcomes = [self.known.get(name, (None,))[0], value]
            assert mine.get(name, (None,))[0] in outcomes, (name, mine.get(name), outcomes)
            if name in mine and name in self.known:
                assert mine[name][1] == self.known[name][1]
            self.known.pop(name, None)
            if name in mine:
                self.known[name] = mine[name]
            self.doubtful = None
        assert mine == self.known


class Follower(threading.Thread):
    """Watches all config maps and keeps its own picture of them, over every life of the server."""

    def __init__(self) -> None:
        super().__init__()
        self.picture: dict[str, str] = {}
        self.version = 0
        self.resumed = self.relisted = 0
        self.port = 0

    def again(self, port: int) -> "Follower":
        other = Follower()
        other.picture, other.version, other.port = self.picture, self.version, port
        other.resumed, other.relisted = self.resumed, self.relisted
        return other

    def run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        if self.version:
            self.resumed += 1
        else:
            self._list(connection)
        for event in watch(connection, f"{URL}?watch=true&resourceVersion={self.version}"):
            if event["type"] == "ERROR":
                assert event["object"]["code"] == 410
                self.relisted += 1
                self.version = 0
                return
            metadata = event["object"]["metadata"]
            assert int(metadata["resourceVersion"]) > self.version
            self.version = int(metadata["resourceVersion"])
            if event["type"] == "DELETED":
                del self.picture[metadata["name"]]
            else:
                self.picture[metadata["name"]] = event["object"]["data"]["value"]

    def _list(self, connection: http.client.HTTPConnection) -> None:
        _, listed = ask(connection, "GET", URL)
        self.picture = {item["metadata"]["name"]: item["data"]["value"] for item in listed["items"]}
        self.version = int(listed["metadata"]["resourceVersion"])


def _found(server: Server) -> tuple[dict[str, tuple[str, str, int]], int]:
    code, listed = ask(server.connection(), "GET", URL)
    assert code == 200
    found = {
        item["metadata"]["name"]: (
            item["data"]["value"],
            item["metadata"]["uid"],
            int(item["metadata"]["resourceVersion"]),
        )
        for item in listed["items"]
    }
    return found, int(listed["metadata"]["resourceVersion"])


def _answers(writers: list[Writer]) -> int:
    return sum(writer.answers for writer in writers)


def _are_at_work(writers: list[Writer], follower: Follower, answers: int) -> bool:
    return _answers(writers) >= answers and (follower.version > 0 or not follower.is_alive())


def test_after_kills_at_random_moments_nothing_acknowledged_is_missing_and_watches_resume(
    tmp_path: Path,
) -> None:
    rng = random.Random()
    writers = [Writer(number, rng.getrandbits(32)) for number in range(6)]
    follower = Follower()
    latest = 0
    for _ in range(examples(ROUNDS)):
        server = Server(tmp_path)
        found, version = _found(server)
        for writer in writers:
            writer.check(found)
        assert version >= max([latest, *(writer.latest for writer in writers)])
        assert version >= follower.version
        latest = version
        writers = [writer.again(server.port) for writer in writers]
        follower = follower.again(server.port)
        for thread in (follower, *writers):
            thread.start()
        until(partial(_are_at_work, writers, follower, _answers(writers) + rng.randint(10, 80)))
        server.kill()
        for thread in (follower, *writers):
            thread.join(PATIENCE)
        assert [writer.surprise for writer in writers] == [None] * len(writers)
    assert _answers(writers) > 20

    server = Server(tmp_path)
    found, _ = _found(server)
    for writer in writers:
        writer.check(found)
    follower = follower.again(server.port)
    follower.start()
    ask(server.connection(), "POST", URL, {"metadata": {"name": "last"}, "data": {"value": "last"}})
    until(lambda: "last" in follower.picture or not follower.is_alive())
    expected = {name: state[0] for name, state in found.items()} | {"last": "last"}
    assert follower.relisted or follower.picture == expected
    assert follower.resumed
    assert server.stop() == 0
    follower.join(PATIENCE)
