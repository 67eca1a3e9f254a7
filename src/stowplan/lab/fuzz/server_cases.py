"""Named cases for the embedded API server: hostile requests to `stowplan up`, in a process by itself.

After every case the server still answers, and it has spent no more CPU time and memory than the case may
cost. A server that does not answer any more is ended, and the next case gets a new one.
"""

import asyncio
import base64
import os
import ssl
import tempfile
import time
import zlib
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

import aiohttp
import msgspec
import yaml

from stowplan.explain.report import Report
from stowplan.explain.report.terminal import render
from stowplan.lab.fuzz.run import FuzzFinding, FuzzResult
from stowplan.testing.processes import STOWPLAN, Process

ANSWERS: Final = "the API server answers"
CHEAP: Final = "a request costs no more than it may"
SMALL: Final = "the API server's memory is bounded"
TRUE: Final = "what is refused is not there"
PLAIN: Final = "no control character reaches a terminal"

ANSWERED_WITHIN: Final = 20.0
"""Seconds after which a request will not be answered any more."""

MIB: Final = 1 << 20
_STARTED_WITHIN: Final = 60.0
_GZIP: Final = 16
"""Added to the window of zlib: with the header of gzip."""
_PODS: Final = "/api/v1/namespaces/default/pods"
_SMALL_FILES: Final = 'ulimit -f 4096; exec "$@"'
"""Files of at most 2 MiB (in units of 512 bytes): what a full disk looks like to a process."""

Json = dict[str, Any]


class CaseServer(Process):
    """`stowplan up` with one node; requests to it as an administrator."""

    def __init__(self, folder: Path) -> None:
        super().__init__("up")
        self._folder = folder
        self.has_full_disk = False
        self._session: aiohttp.ClientSession | None = None
        self.url = ""

    async def start(self, *, full_disk: bool = False) -> None:
        """Start it. Raises RuntimeError if it does not."""
        self.has_full_disk = full_disk
        self._folder.mkdir()
        kubeconfig = self._folder / "kubeconfig"
        command = [*STOWPLAN, "up", "--nodes=1", "--no-page", f"--kubeconfig-out={kubeconfig}"]
        if full_disk:
            command = ["sh", "-c", _SMALL_FILES, "sh", *command, f"--data-dir={self._folder / 'data'}"]
        await self.spawn(*command)
        deadline = time.monotonic() + _STARTED_WITHIN
        while not kubeconfig.exists() or not self._connect(kubeconfig) or not await self.is_there():
            if self.code is not None or time.monotonic() > deadline:
                raise RuntimeError(f"stowplan up did not start: {' / '.join(self.lines[-3:])}")
            await asyncio.sleep(0.05)

    def _connect(self, path: Path) -> bool:
        if self._session is None:
            config = yaml.safe_load(path.read_text(encoding="utf-8"))
            cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
            trusted = base64.b64decode(cluster["certificate-authority-data"]).decode()
            self.url = cluster["server"]
            self._session = aiohttp.ClientSession(
                headers={"Authorization": f"Bearer {user['token']}"},
                connector=aiohttp.TCPConnector(limit=0, ssl=ssl.create_default_context(cadata=trusted)),
                timeout=aiohttp.ClientTimeout(total=ANSWERED_WITHIN),
            )
        return True

    async def is_there(self) -> bool:
        try:
            return (await self.request("GET", "/livez"))[0] == 200
        except (aiohttp.ClientError, OSError, TimeoutError):
            return False

    async def request(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> tuple[int, bytes]:
        """The code and the text of an answer. Raises TimeoutError, OSError or `aiohttp.ClientError`."""
        assert self._session is not None
        sent = {"Content-Type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}}
        async with self._session.request(method, self.url + path, data=body, headers=sent) as answer:
            return answer.status, await answer.read()

    async def json(self, method: str, path: str, body: Json | None = None) -> tuple[int, Json]:
        code, text = await self.request(method, path, None if body is None else msgspec.json.encode(body))
        return code, msgspec.json.decode(text, type=Json)

    async def open_watch(self, path: str) -> aiohttp.ClientResponse:
        """A watch of which nothing is read but its head."""
        assert self._session is not None
        unhurried = aiohttp.ClientTimeout(total=None)
        return await self._session.get(f"{self.url}{path}?watch=true", timeout=unhurried, read_bufsize=1024)

    def cpu(self) -> float:
        """Seconds of CPU time that the process has had."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None
        await self.kill()


Play = Callable[[CaseServer], Awaitable[list[tuple[str, str]]]]
"""Plays a case; the rules that were broken, each with what was seen."""


class ServerCase(NamedTuple):
    """A case by name. `full_disk`: the server cannot write more than two megabytes."""

    name: str
    play: Play
    full_disk: bool = False


def pod(name: str, **more: Any) -> Json:
    """A pod that no node takes, so that nothing happens to it."""
    metadata = {"name": name, "namespace": "default", **more.pop("metadata", {})}
    container = {"name": "c", "image": "i", **more.pop("container", {})}
    spec = {"containers": [container], "schedulerName": "nobody", **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def _cost(server: CaseServer, most: float, send: Awaitable[tuple[int, bytes]]) -> list[tuple[str, str]]:
    """A request with a limit of CPU time, which is refused or done."""
    before = server.cpu()
    code, text = await send
    took = await _settled_cpu(server) - before
    found: list[tuple[str, str]] = []
    if took > most:
        found.append((CHEAP, f"{took:.2f} s of CPU time for an answer of {code}"))
    if code >= 500:
        found.append((ANSWERS, f"{code}: {text[:200].decode(errors='replace')}"))
    return found


async def _settled_cpu(server: CaseServer) -> float:
    """The CPU time when the server is idle again: an answer may come before the work on a request ends."""
    last, now = -1.0, server.cpu()
    while now > last + _IDLE:
        await server.is_there()
        await asyncio.sleep(0.2)
        last, now = now, server.cpu()
    return now


_IDLE: Final = 0.03
"""Seconds of CPU time in a fifth of a second that controllers and kubelets need."""


async def _merge_keys(server: CaseServer) -> list[tuple[str, str]]:
    """Every level merges the one below thirty times: 2 KB of YAML that stand for millions of keys."""
    levels = ["m0: &m0 {" + ", ".join(f"k{number}: x" for number in range(30)) + "}"]
    for level in range(1, 5):
        levels.append(f"m{level}: &m{level} {{<<: [{', '.join([f'*m{level - 1}'] * 30)}]}}")
    text = "\n".join(("apiVersion: v1", "kind: Pod", "metadata: {name: merged}", *levels))
    return await _cost(
        server, 0.5, server.request("POST", _PODS, text.encode(), Content_Type="application/yaml")
    )


async def _exponent(server: CaseServer) -> list[tuple[str, str]]:
    """Admission, the scheduler and the quotas of the cluster all read it."""
    found: list[tuple[str, str]] = []
    for number, amount in enumerate(("1e999999", "1e99999999", "1e999999999")):
        requests = {"cpu": amount, "memory": amount}
        body = pod(f"vast-{number}", container={"resources": {"requests": requests}})
        del body["spec"]["schedulerName"]
        found += await _cost(server, 0.5, server.request("POST", _PODS, msgspec.json.encode(body)))
        if not await server.is_there():
            return [*found, (ANSWERS, f"/livez does not answer after {amount}")]
    return found


async def _deep_json(server: CaseServer) -> list[tuple[str, str]]:
    """Deeper than any decoder goes, in a body and in managedFields."""
    depth = 100_000
    deep = b'{"a":' * depth + b"1" + b"}" * depth
    whole = b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"deep","managedFields":[%b]}}' % deep
    found = await _cost(server, 0.5, server.request("POST", _PODS, deep))
    return found + await _cost(server, 0.5, server.request("POST", _PODS, whole))


async def _bomb(server: CaseServer) -> list[tuple[str, str]]:
    """Gigabytes of blanks in less than a body may have: a block of a megabyte, again and again."""
    packing = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | _GZIP)
    head, block = (packing.compress(b" " * MIB) + packing.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    text = head + block * (2_900_000 // len(block))
    return await _cost(server, 0.3, server.request("POST", _PODS, text, Content_Encoding="gzip"))


async def _slow_watches(server: CaseServer) -> list[tuple[str, str]]:
    """Watches of which nothing is ever read, and writes of 200 KB for each of them."""
    watches, writes = 40, 75
    before = server.resident()
    async with AsyncExitStack() as stack:
        for _ in range(watches):
            stack.callback((await server.open_watch(_PODS)).close)
        note = "x" * 200_000
        for number in range(writes):
            body = pod(f"noted-{number}", metadata={"annotations": {"note": note}})
            await server.request("POST", _PODS, msgspec.json.encode(body))
        most = server.resident()
    for number in range(writes):
        await server.request("DELETE", f"{_PODS}/noted-{number}", b'{"gracePeriodSeconds":0}')
    found: list[tuple[str, str]] = []
    limit = before + _WATCHES_MAY_HOLD
    if most > limit:
        found.append((SMALL, f"{before // MIB} MiB before, {most // MIB} with {watches} watches unread"))
    after = await _smallest(server, int(before * 1.1) + _SLACK)
    if after > before * 1.1 + _SLACK:
        found.append((SMALL, f"{before // MIB} MiB before, {after // MIB} after the watches were closed"))
    return found


_WATCHES_MAY_HOLD: Final = 160 * MIB
_SLACK: Final = 48 * MIB
"""The history of changes that the server keeps, 75 objects of 200 KB in several forms."""


async def _smallest(server: CaseServer, wanted: int) -> int:
    deadline = time.monotonic() + 10.0
    while server.resident() > wanted and time.monotonic() < deadline:
        await asyncio.sleep(0.2)
    return server.resident()


async def _circle(server: CaseServer) -> list[tuple[str, str]]:
    """Three pods own each other, and one is deleted in the foreground: the garbage collector has to end."""
    names = ("circle-1", "circle-2", "circle-3")
    uids = [(await server.json("POST", _PODS, pod(name)))[1]["metadata"]["uid"] for name in names]
    for number, name in enumerate(names):
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": names[number - 1],
            "uid": uids[number - 1],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        patch = msgspec.json.encode({"metadata": {"ownerReferences": [owner]}})
        await server.request("PATCH", f"{_PODS}/{name}", patch, Content_Type="application/merge-patch+json")
    options = {"propagationPolicy": "Foreground", "gracePeriodSeconds": 0}
    await server.json("DELETE", f"{_PODS}/{names[0]}", options)
    deadline = time.monotonic() + ANSWERED_WITHIN
    left: list[str] = list(names)
    while left and time.monotonic() < deadline:
        left = [name for name in names if (await server.request("GET", f"{_PODS}/{name}"))[0] != 404]
        await asyncio.sleep(0.05)
    return [(ANSWERS, f"{', '.join(left)} were not deleted")] if left else []


async def _full_disk(server: CaseServer) -> list[tuple[str, str]]:
    """Writes until one is refused: no list and no watch may show what was refused."""
    note, refused = "x" * 200_000, ""
    for number in range(60):
        name = f"written-{number}"
        body = pod(name, metadata={"annotations": {"note": note}})
        code, _ = await server.request("POST", _PODS, msgspec.json.encode(body))
        if code >= 500:
            refused = name
            break
    if not refused:
        return [(TRUE, "no write was refused though the disk is full")]
    _, listed = await server.json("GET", _PODS)
    shown = [one["metadata"]["name"] for one in listed["items"]]
    code, _ = await server.request("GET", f"{_PODS}/{refused}")
    found = [(TRUE, f"{refused} was refused and is listed")] if refused in shown else []
    return found + ([(TRUE, f"{refused} was refused and is found")] if code == 200 else [])


_BIDI: Final = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"


async def _terminal(server: CaseServer) -> list[tuple[str, str]]:
    """Bidirectional controls in a text make a terminal show another text."""
    text = f"pod {_BIDI}\x1b[2J\u2028 is fine"
    shown = "\n".join(render(Report(title=text, summary=text, parts=(), data={})))
    bad = sorted({f"U+{ord(one):04X}" for one in shown if one in f"{_BIDI}\x1b\u2028"})
    return [(PLAIN, ", ".join(bad))] if bad else []


SERVER_CASES: Final = (
    ServerCase("YAML merge keys of merge keys", _merge_keys),
    ServerCase("requests of 1e999999999", _exponent),
    ServerCase("bodies 100,000 levels deep", _deep_json),
    ServerCase("a gzip bomb", _bomb),
    ServerCase("watches that are never read", _slow_watches),
    ServerCase("pods that own each other", _circle),
    ServerCase("writes to a full disk", _full_disk, full_disk=True),
    ServerCase("bidirectional controls in texts", _terminal),
)


def run_server_cases(
    cases: Iterable[ServerCase], show: Callable[[ServerCase], None] = lambda case: None
) -> FuzzResult:
    """Run cases one after the other; `show` is called after each."""
    result = FuzzResult()

    async def main() -> None:
        server: CaseServer | None = None
        with tempfile.TemporaryDirectory(prefix="stowplan-fuzz-") as folder:
            try:
                for number, case in enumerate(cases):
                    if server is not None and (case.full_disk or server.has_full_disk):
                        await server.close()
                        server = None
                    if server is None:
                        server = CaseServer(Path(folder, str(number)))
                        await server.start(full_disk=case.full_disk)
                    if not await _run(case, server, result):
                        await server.close()
                        server = None
                    result.cases += 1
                    show(case)
            finally:
                if server is not None:
                    await server.close()

    asyncio.run(main())
    return result


async def _run(case: ServerCase, server: CaseServer, result: FuzzResult) -> bool:
    """Play a case; the server still answers."""
    try:
        found = await case.play(server)
    except (aiohttp.ClientError, OSError, TimeoutError) as failure:
        found = [(ANSWERS, f"{type(failure).__name__}: {failure or 'no answer'}")]
    answers = await server.is_there()
    if not answers:
        found.append((ANSWERS, "/livez does not answer after the case"))
    result.findings += [FuzzFinding(case.name, rule, detail[:400]) for rule, detail in found]
    return answers
