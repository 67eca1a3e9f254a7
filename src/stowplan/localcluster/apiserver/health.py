"""Health of the API server: /healthz, /livez and /readyz, their single checks, and which are left out."""

from collections.abc import Callable
from typing import Final
from urllib.parse import parse_qsl

from aiohttp import web

from stowplan.api.catalogue import (
    CLUSTER_ROLES,
    CUSTOM_RESOURCE_DEFINITIONS,
    FLOW_SCHEMAS,
    NAMESPACES,
    Resource,
)
from stowplan.api.status import ApiError
from stowplan.gocompat.quoting import quote
from stowplan.localcluster.store import Store

Check = Callable[[], str]
"""Problem that a check finds, empty if there is none."""

ENDPOINTS: Final = ("healthz", "livez", "readyz")
_MOST_PARAMETERS: Final = 100


class HealthChecks:
    """The checks of a server, by their names."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.is_stopping = False
        self._finished: set[tuple[Resource, str]] = set()
        live: dict[str, Check] = {
            "ping": lambda: "",
            "log": lambda: "",
            "etcd": self._reads,
            "poststarthook/priority-and-fairness-config-producer": lambda: self._has(FLOW_SCHEMAS, "exempt"),
            "poststarthook/start-apiextensions-controllers": self._definitions,
            "poststarthook/rbac/bootstrap-roles": lambda: self._has(CLUSTER_ROLES, "cluster-admin"),
            "poststarthook/start-system-namespaces-controller": lambda: self._has(NAMESPACES, "kube-system"),
        }
        ready: dict[str, Check] = {**live, "etcd-readiness": self._takes_writes, "shutdown": self._running}
        self._checks = {"healthz": live, "livez": live, "readyz": ready}

    def serves(self, path: str) -> bool:
        return path.split("/", 2)[1] in ENDPOINTS

    def answer(self, path: str, query: str) -> web.Response | None:
        """The response at a path, None if there is no check of that name."""
        endpoint, slash, name = path.removeprefix("/").partition("/")
        checks = self._checks[endpoint]
        if slash:
            return None if name not in checks else _one(checks[name]())
        given = parse_qsl(query, keep_blank_values=True, max_num_fields=_MOST_PARAMETERS)
        excluded = {value for key, value in given if key == "exclude"}
        lines, failed = _run(checks, excluded)
        unknown = sorted(excluded - checks.keys())
        if unknown:
            listed = ",".join(quote(one) for one in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {listed}")
        if failed:
            return _text("\n".join([*lines, f"{endpoint} check failed", ""]), 500)
        if not any(key == "verbose" for key, _ in given):
            return _text("ok")
        return _text("\n".join([*lines, f"{endpoint} check passed", ""]))

    def _takes_writes(self) -> str:
        """Only reads work, as with a full disk: the server is alive, not ready: a restart will not help."""
        try:
            self._store.admit_writes()
        except ApiError as error:
            return error.message
        return ""

    def _definitions(self) -> str:
        return "" if CUSTOM_RESOURCE_DEFINITIONS in self._store.catalogue else "not served"

    def _reads(self) -> str:
        self._store.find(NAMESPACES, "", "default")
        return ""

    def _has(self, resource: Resource, name: str) -> str:
        """A hook has finished once its object exists, and stays so when somebody deletes the object."""
        hook = (resource, name)
        if hook not in self._finished and self._store.find(resource, "", name) is not None:
            self._finished.add(hook)
        return "" if hook in self._finished else "not finished"

    def _running(self) -> str:
        return "process is shutting down" if self.is_stopping else ""


def _run(checks: dict[str, Check], excluded: set[str]) -> tuple[list[str], list[str]]:
    """A line for each check, and those that failed."""
    lines: list[str] = []
    failed: list[str] = []
    for name, check in checks.items():
        if name in excluded:
            lines.append(f"[+]{name} excluded: ok")
        elif check():
            # Everybody may read this: the reason is for those who may read the check itself.
            lines.append(f"[-]{name} failed: reason withheld")
            failed.append(name)
        else:
            lines.append(f"[+]{name} ok")
    return lines, failed


def _one(problem: str) -> web.Response:
    return _text(f"internal server error: {problem}\n", 500) if problem else _text("ok")


def _text(text: str, code: int = 200) -> web.Response:
    response = web.Response(text=text, status=code)
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response
