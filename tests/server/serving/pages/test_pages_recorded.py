"""Every page answers as kube-scheduler was seen to answer: status, headers, bodies.

Bodies are not compared where none was kept: the figures of /metrics differ, and there are other profiles.
"""

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from observed.files import recorded
from server.serving.pages.pageports import Answer, Port, World, open_port
from stowplan.testing import pod
from stowplan.testing.builders import PodBuilder

WORLDS: dict[str, dict[str, Any]] = {
    "leader": {},
    "absent": {},
    "standby": {"leading": False},
    "resources-with-pods": {},
    "no-leader-election": {"electing": False},
    "always-allow-metrics-and-profiling-off": {"electing": False, "profiling": False},
    "not-ready-pods-cannot-be-listed": {"electing": False, "synced": False},
}
"""How the process was in each recording."""

LANGUAGE = re.compile(r"python3\.\d+\.\d+|go1\.27\.3")
STATUS_LINES = ["Started", "Up", "Go version", "Binary version", "Emulation version", "Paths"]


def _entries() -> Iterator[Any]:
    """Every recorded answer."""
    for number, entry in enumerate(recorded("ports/pages")):
        name = f"{entry['case']} {entry['method']} {entry['path']} {entry.get('accept', '')} {number}"
        yield pytest.param(entry, id=name.strip())


def _flags() -> dict[str, str]:
    found = next(
        entry
        for entry in recorded("ports/pages")
        if entry["path"] == "/flagz" and "as=Flagz" in entry.get("accept", "")
    )
    flags: dict[str, str] = json.loads(found["body"])["flags"]
    return flags


def _world(case: str) -> World:
    world = World(flags=_flags(), **WORLDS[case])
    if case == "resources-with-pods":
        world.pods = [builder.namespace("obs-p").obj() for builder in _pods()]
    return world


def _pods() -> Iterator[PodBuilder]:
    """The pods that there were when /metrics/resources was recorded."""
    small = {"cpu": "1", "memory": "128Mi"}
    huge = {"hugepages-2Mi": "4Mi"}
    yield pod("gated").requests(small).priority(0).gates("example.com/gate")
    yield pod("other-scheduler").requests(small).priority(0).scheduler("somebody-else")
    yield pod("pending").requests(cpu="100", memory="128Mi").priority(0)
    yield pod("hp").requests({**small, **huge}).limits({"memory": "128Mi", **huge}).priority(0).on("node-p1")
    yield pod("plain").requests(small).limits(cpu="2", memory="256Mi").priority(0).on("node-p1")
    more = {"ephemeral-storage": "1Gi", "example.com/foo": "2"}
    yield pod("prio").requests({**small, **more}).limits({"example.com/foo": "2"}).priority(10).on("node-p1")


async def _asked(port: Port, entry: dict[str, Any], world: World) -> Answer:
    """Ask as in the recording; the bodies of PUT requests were not recorded but follow from the answers."""
    body = None
    if entry["method"] == "PUT":
        body = re.findall(r"to (\d+)|parsing \"(.*)\"", entry["body"])[0]
        body = "".join(body).encode()
    if entry["path"] == "/metrics/slis":
        for page in ("/healthz", "/livez", "/readyz"):
            if world.profiling or page == "/healthz":
                await port.ask(page)
        if world.synced and entry["case"] == "leader":
            world.synced = False
            await port.ask("/readyz")
            world.synced = True
            await port.ask("/readyz")
    return await port.ask(entry["path"], entry["method"], accept=entry.get("accept", ""), body=body)


@pytest.mark.parametrize("entry", list(_entries()))
def test_a_page_answers_as_recorded(entry: dict[str, Any]) -> None:
    world = _world(entry["case"])

    async def ask() -> Answer:
        async with open_port(world.pages()) as port:
            return await _asked(port, entry, world)

    answer = asyncio.run(ask())
    assert answer.code == entry["code"]
    own = {name: value for name, value in answer.headers.items() if name in entry["headers"]}
    assert own == entry["headers"]
    assert ("X-Content-Type-Options" in answer.headers) == ("X-Content-Type-Options" in entry["headers"])
    if entry["method"] != "HEAD" and "body" in entry:
        assert _comparable(entry["path"], answer.text) == _comparable(entry["path"], entry["body"])


def _comparable(path: str, body: str) -> object:
    """A body without what is ours to choose: the order of members, the separator, the language, texts."""
    body = LANGUAGE.sub("<language>", body)
    if body.startswith("{"):
        return json.loads(body)
    if path.startswith("/metrics"):
        return sorted(_series(line) for line in body.splitlines() if not line.startswith("# HELP"))
    if path in ("/statusz", "/flagz") and not body.startswith("apiVersion"):
        return [_named_line(line) for line in body.splitlines()]
    return body


def _named_line(line: str) -> str:
    """A line of a z-page without its separator, and without the time of day."""
    names = sorted([*STATUS_LINES, *_flags()], key=len, reverse=True)
    for name in names:
        rest = line.removeprefix(name)
        if rest != line:
            value = rest.lstrip(":= ")
            return f"{name}|{re.sub('[0-9]+', '0', value) if name in ('Started', 'Up') else value}"
    return line


def _series(line: str) -> str:
    """A line of a scrape; how often a check was made is not compared."""
    return line.rpartition(" ")[0] if line.startswith(("kubernetes_", "process_")) else line
