"""`stowplan run` as a real process against our own API server, which runs in the test."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from client.http.served_stores import serving
from releases import EMULATE_1_36
from stowplan.api.catalogue import EVENTS, LEASES, NODES, PODS
from stowplan.api.requests import Json
from stowplan.localcluster.store import Store
from waiting import PATIENCE, eventually

LEASE = ("kube-system", "kube-scheduler")


class RunningScheduler:
    """One process, and what it has said so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.lines.append(line.decode().rstrip("\n"))

    @property
    def log(self) -> str:
        return "\n".join(self.lines)

    async def says(self, pattern: str) -> str:
        """Wait for a line."""
        found = ""

        def said() -> bool:
            nonlocal found
            found = next((line for line in self.lines if re.search(pattern, line)), "")
            return bool(found)

        await eventually(said, lambda: f"nobody said {pattern!r}:\n{self.log}")
        return found

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    async def ends(self) -> int:
        """The exit code."""
        code = await asyncio.wait_for(self.process.wait(), PATIENCE)
        await self._reading
        return code

    async def clear_away(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()
        await self._reading


class Cluster:
    """An API server in this process, and the schedulers that were started on it."""

    def __init__(self, store: Store, folder: Path, kubeconfig: Path) -> None:
        self.store = store
        self.folder = folder
        self.kubeconfig = kubeconfig
        self.started: list[RunningScheduler] = []

    async def start(self, *flags: str, config: Path | None = None) -> RunningScheduler:
        """Start a scheduler; without a configuration file it gets the kubeconfig by flag."""
        where = [f"--kubeconfig={self.kubeconfig}"] if config is None else [f"--config={config}"]
        started = await begin(*where, "--secure-port=0", *flags)
        self.started.append(started)
        return started

    def write_config(self, *profiles: str, more: str = "", name: str = "config.yaml") -> Path:
        """A configuration file with such profiles."""
        listed = "".join(f"- schedulerName: {profile}\n" for profile in profiles)
        path = self.folder / name
        fresh = self.folder / f"{name}.new"
        fresh.write_text(
            "apiVersion: kubescheduler.config.k8s.io/v1\n"
            "kind: KubeSchedulerConfiguration\n"
            f"clientConnection: {{kubeconfig: {self.kubeconfig}, qps: 1000, burst: 1000}}\n"
            f"profiles:\n{listed}{more}"
        )
        return fresh.replace(path)

    def add_nodes(self, count: int, cpu: str = "64") -> None:
        room = {"cpu": cpu, "memory": "256Gi", "pods": "5000"}
        for number in range(count):
            self.store.create(
                NODES,
                {
                    "metadata": {"name": f"n{number}"},
                    "status": {"capacity": room, "allocatable": room},
                },
            )

    def add_pod(self, name: str, **spec: Any) -> Json:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}
        return self.store.create(
            PODS,
            {
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"containers": [container], "schedulerName": "default-scheduler", **spec},
            },
        )

    def node_of(self, name: str) -> str:
        return str(self.store.get(PODS, "default", name)["spec"].get("nodeName", ""))

    async def bound(self, *names: str) -> None:
        """Wait until pods have a node."""
        for name in names:
            await eventually(partial(self.is_bound, name), partial(self._why, name))

    def is_bound(self, name: str) -> bool:
        return bool(self.node_of(name))

    async def told_once(self, *names: str) -> None:
        """Wait until there is an event for each pod's assignment, and see that there is one each."""
        await eventually(
            lambda: all(self.scheduled(name) for name in names), lambda: "pods were bound without an event"
        )
        assert {name: self.scheduled(name) for name in names} == dict.fromkeys(names, 1)

    def lease(self) -> Json:
        """Spec of the lease; empty if there is none."""
        found = self.store.list(LEASES, LEASE[0]).items
        spec: Json = found[0]["spec"] if found else {}
        return spec

    def scheduled(self, name: str) -> int:
        """Number of events about a pod's assignment."""
        events = self.store.list(EVENTS).items
        return sum(one["reason"] == "Scheduled" and one["regarding"]["name"] == name for one in events)

    def _why(self, name: str) -> str:
        logs = "\n---\n".join(one.log for one in self.started)
        return f"pod {name} has no node:\n{logs}"


async def begin(*arguments: str) -> RunningScheduler:
    """Start a scheduler with these arguments and no others; of the recorded release if they name none."""
    chosen = any(argument.startswith("--emulated-version") for argument in arguments)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "from stowplan.cli.main import main; main()",
        "run",
        *(() if chosen else (EMULATE_1_36,)),
        *arguments,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "KUBERNETES_SERVICE_HOST": ""},
    )
    return RunningScheduler(process)


@asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[Cluster]:
    async with serving(folder) as (store, _, kubeconfig):
        made = Cluster(store, folder, Path(kubeconfig))
        try:
            yield made
        finally:
            for one in made.started:
                await one.clear_away()


def names(count: int, prefix: str = "p") -> Sequence[str]:
    return [f"{prefix}{number}" for number in range(count)]
