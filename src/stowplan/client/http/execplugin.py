"""Credentials that a command prints (client.authentication.k8s.io), kept until they expire."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from stowplan.api.meta import seconds_of
from stowplan.client.http.settings import ExecPlugin
from stowplan.client.http.tokens import CredentialsError, bearer
from stowplan.clock import Clock

PATIENCE: Final = 60.0
"""Seconds a command may take."""

_SHOWN: Final = 300


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    expiration_timestamp: str | None = None
    client_certificate_data: str = ""
    client_key_data: str = ""


class _Printed(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _Status | None = None


class PluginCredentials:
    """Runs the command when it is needed: at first, after the expiry it told, and after a refusal."""

    def __init__(self, plugin: ExecPlugin, clock: Clock, show: Callable[[bytes, bytes], None]) -> None:
        self._plugin = plugin
        self._clock = clock
        self._show = show
        self._value: str | None = None
        self._expires = float("inf")
        self._running: asyncio.Task[None] | None = None

    def header(self) -> str | None:
        return None if self._clock.now() >= self._expires else self._value

    def refused(self, used: str) -> bool:
        if used == self._value:
            self._value = None
        return True

    async def renew(self) -> None:
        """However many ask, the command runs once, and goes on if one of them gives up."""
        if self._running is None:
            self._running = asyncio.create_task(self._fetch(), name="credential plugin")
            self._running.add_done_callback(self._done)
        await asyncio.shield(self._running)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._running = None
        if not task.cancelled():
            task.exception()

    async def _fetch(self) -> None:
        printed = self._read(await self._output())
        found = printed.status
        if found is None or not (found.token or found.client_certificate_data):
            raise self._problem("expected a token or a certificate in `status`")
        if bool(found.client_certificate_data) != bool(found.client_key_data):
            raise self._problem("expected both clientCertificateData and clientKeyData in `status`, or none")
        if found.client_certificate_data:
            self._show(found.client_certificate_data.encode(), found.client_key_data.encode())
        self._expires = self._expiry(found.expiration_timestamp)
        self._value = bearer(found.token) if found.token else ""

    def _expiry(self, text: str | None) -> float:
        if not text:
            return float("inf")
        try:
            return seconds_of(text)
        except ValueError as error:
            raise self._problem(f"status.expirationTimestamp: {error}") from None

    def _read(self, output: bytes) -> _Printed:
        try:
            printed = msgspec.json.decode(output, type=_Printed)
        except msgspec.MsgspecError as error:
            raise self._problem(f"expected an ExecCredential as JSON: {error}") from None
        if printed.kind != "ExecCredential" or printed.api_version != self._plugin.api_version:
            raise self._problem(
                f"expected an ExecCredential of {self._plugin.api_version}, "
                f"got kind {printed.kind!r} of {printed.api_version!r}"
            )
        return printed

    async def _output(self) -> bytes:
        plugin = self._plugin
        try:
            process = await asyncio.create_subprocess_exec(
                _command(plugin),
                *plugin.args,
                env={**os.environ, **plugin.env, "KUBERNETES_EXEC_INFO": _request(plugin)},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            hint = f"; {' '.join(plugin.install_hint.split())}" if plugin.install_hint else ""
            raise self._problem(f"{(error.strerror or str(error)).lower()}{hint}") from None
        try:
            async with asyncio.timeout(PATIENCE):
                output, complaints = await process.communicate()
        except BaseException as error:
            if process.returncode is None:
                process.kill()
            if isinstance(error, TimeoutError):
                raise self._problem(f"it took longer than {PATIENCE:.0f} s") from None
            raise
        if process.returncode:
            said = " ".join(complaints.decode("utf-8", "replace").split())[-_SHOWN:]
            raise self._problem(
                f"it failed with exit code {process.returncode}" + (f": {said}" if said else "")
            )
        return output

    def _problem(self, text: str) -> CredentialsError:
        return CredentialsError(f"exec: {self._plugin.command}: {text}")


def _command(plugin: ExecPlugin) -> str:
    """The command to run: a relative path begins at the kubeconfig's folder, a bare name is looked for."""
    if os.sep in plugin.command and not Path(plugin.command).is_absolute():
        return str(Path(plugin.folder, plugin.command))
    return plugin.command


def _request(plugin: ExecPlugin) -> str:
    spec: dict[str, Any] = {"interactive": False}
    if plugin.cluster is not None:
        spec["cluster"] = plugin.cluster
    request = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    return msgspec.json.encode(request).decode()
