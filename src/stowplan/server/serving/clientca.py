"""CA bundles for client certificates: from files, or from the cluster's authentication ConfigMap."""

import asyncio
import contextlib
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from stowplan.api.catalogue import CONFIG_MAPS
from stowplan.api.decode import UNDECODABLE, undecodable
from stowplan.api.meta import Object
from stowplan.api.requests import Selection
from stowplan.api.status import ApiError
from stowplan.client import Reader, Reflector
from stowplan.client.http.certfiles import FileStamps
from stowplan.runtime.clock import Clock
from stowplan.runtime.logs import Logger
from stowplan.server.serving.clientcertificates import CertPool, RequestHeaderAuthenticator
from stowplan.server.serving.settings import AuthenticationSettings, RequestHeaderSettings, ServingError

NAMESPACE: Final = "kube-system"
NAME: Final = "extension-apiserver-authentication"
CLIENT_CA: Final = "client-ca-file"
FRONT_PROXY_CA: Final = "requestheader-client-ca-file"

_LOOKUP_TIMEOUT: Final = 10.0

Bundle = tuple[x509.Certificate, ...]
T = TypeVar("T")


class ConfigMap(Object, frozen=True):
    """A ConfigMap's data."""

    data: dict[str, str] = {}  # noqa: RUF012 (msgspec copies it)


class ClientCAs:
    """The current client CAs. `on_change` is called when they were replaced."""

    def __init__(
        self,
        settings: AuthenticationSettings,
        reader: Reader | None,
        on_change: Callable[[], None],
        *,
        clock: Clock,
        rng: random.Random,
        logger: Logger,
    ) -> None:
        self._settings = settings
        self._reader = None if settings.skip_lookup else reader
        self._on_change = on_change
        self._clock = clock
        self._rng = rng
        self._logger = logger
        self._client_bundle: Bundle = ()
        self._proxy_bundle: Bundle = ()
        self._headers = settings.request_header
        files = (settings.client_ca_file, settings.request_header.client_ca_file)
        self._stamps = FileStamps([file for file in files if file])
        self._watch: asyncio.Task[None] | None = None
        self.users: CertPool | None = None
        self.front_proxy: RequestHeaderAuthenticator | None = None

    @property
    def pem(self) -> bytes:
        """All CAs, for the TLS handshake."""
        both = dict.fromkeys([*self._client_bundle, *self._proxy_bundle])
        return b"".join(certificate.public_bytes(Encoding.PEM) for certificate in both)

    async def start(self) -> None:
        """Read the files, and the ConfigMap for what they lack. Raises `ServingError`."""
        self._read_files()
        missing = [] if self._settings.client_ca_file else [CLIENT_CA]
        if not self._settings.request_header.client_ca_file:
            missing.append(FRONT_PROXY_CA)
        if not missing or self._settings.skip_lookup:
            return
        if self._reader is None:
            self._warn_of(missing)
            return
        is_reachable = await self._look_up(self._reader)
        reflector = self._reflector(self._reader)
        self._watch = asyncio.create_task(reflector.run())
        if is_reachable:
            # So that it is watched before anything that waits for the port, such as the election, begins.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOKUP_TIMEOUT):
                    await reflector.wait_settled()

    async def stop(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watch

    def reread(self) -> None:
        """Reload changed files; on errors the current CAs stay."""
        if self._stamps.changed():
            try:
                self._read_files()
            except ServingError as error:
                self._logger.error("Authorities cannot be reloaded; keeping those in use", err=str(error))
            else:
                self._on_change()

    # Event handlers of the reflector

    def added(self, new: ConfigMap, /) -> None:
        self._adopt(new.data)

    def updated(self, old: ConfigMap, new: ConfigMap, /) -> None:
        self._adopt(new.data)

    def deleted(self, last: ConfigMap, /) -> None:
        """The last known CAs stay in use."""

    def _reflector(self, reader: Reader) -> Reflector[ConfigMap]:
        return Reflector(
            reader,
            CONFIG_MAPS,
            ConfigMap,
            self,
            clock=self._clock,
            rng=self._rng,
            report=lambda text: self._logger.error("Cannot follow the authentication settings", err=text),
            namespace=NAMESPACE,
            selection=Selection.parse(fields=f"metadata.name={NAME}"),
            stream=True,
            without="client certificates and front proxies are known only as far as flags name authorities",
        )

    async def _look_up(self, reader: Reader) -> bool:
        """Read the ConfigMap, and say whether the API server has answered."""
        try:
            async with asyncio.timeout(_LOOKUP_TIMEOUT):
                found = await reader.get(CONFIG_MAPS, NAMESPACE, NAME)
        except TimeoutError:
            self._lookup_failed("the API server did not answer")
            return False
        except ApiError as error:
            if not error.is_not_found:
                self._lookup_failed(error.message)
            return error.is_not_found
        data = found.get("data")
        self._adopt(data if isinstance(data, dict) else {})
        return True

    def _lookup_failed(self, why: str) -> None:
        if not self._settings.tolerate_lookup_failure:
            raise ServingError(f"unable to load configmap based request-header-client-ca-file: {why}")
        self._logger.warning("Error looking up in-cluster authentication configuration", err=why)
        self._logger.warning(
            "Continuing without authentication configuration. This may treat all requests as anonymous."
        )
        self._logger.warning(
            "To require authentication configuration lookup to succeed,"
            " set --authentication-tolerate-lookup-failure=false"
        )

    def _warn_of(self, missing: list[str]) -> None:
        for key in missing:
            kind = "client" if key == CLIENT_CA else "request-header client"
            self._logger.warning(
                f"No authentication-kubeconfig provided in order to lookup {key} in configmap/{NAME}"
                f" in {NAMESPACE}, so {kind} certificate authentication won't work."
            )

    def _read_files(self) -> None:
        settings = self._settings
        clients, proxy = self._client_bundle, self._proxy_bundle
        if settings.client_ca_file:
            clients = _bundle_file(settings.client_ca_file, "--client-ca-file")
        if settings.request_header.client_ca_file:
            proxy = _bundle_file(settings.request_header.client_ca_file, "--requestheader-client-ca-file")
        self._use(clients, proxy, self._headers)

    def _adopt(self, data: Mapping[str, str]) -> None:
        """Use the ConfigMap's values where no flag names a file."""
        clients, proxy, headers = self._client_bundle, self._proxy_bundle, self._headers
        if not self._settings.client_ca_file and data.get(CLIENT_CA):
            clients = self._usable(lambda: _bundle(data[CLIENT_CA].encode(), CLIENT_CA), clients)
        if not self._settings.request_header.client_ca_file and data.get(FRONT_PROXY_CA):
            proxy, headers = self._usable(
                lambda: (_bundle(data[FRONT_PROXY_CA].encode(), FRONT_PROXY_CA), _header_settings(data)),
                (proxy, headers),
            )
        if (clients, proxy, headers) != (self._client_bundle, self._proxy_bundle, self._headers):
            self._use(clients, proxy, headers)
            self._on_change()

    def _usable(self, read: Callable[[], T], last: T) -> T:
        try:
            return read()
        except ServingError as error:
            self._logger.error(f"configmap/{NAME} cannot be used; keeping what is in use", err=str(error))
            return last

    def _use(self, clients: Bundle, proxy: Bundle, headers: RequestHeaderSettings) -> None:
        self._client_bundle, self._proxy_bundle, self._headers = clients, proxy, headers
        self.users = CertPool(clients) if clients else None
        self.front_proxy = RequestHeaderAuthenticator(CertPool(proxy), headers) if proxy else None
        for index, certificate in enumerate(clients + proxy):
            self._logger.info(
                2, "Loaded client CA", index=index, subject=certificate.subject.rfc4514_string()
            )


def _bundle_file(file: str, flag: str) -> Bundle:
    try:
        return _bundle(Path(file).read_bytes(), f"{flag}: {file}")
    except OSError as error:
        raise ServingError(f"{flag}: cannot read {file}: {error.strerror}") from None


def _bundle(pem: bytes, where: str) -> Bundle:
    try:
        return tuple(x509.load_pem_x509_certificates(pem))
    except ValueError as error:
        raise ServingError(f"{where}: expected PEM certificates: {error}") from None


def _header_settings(data: Mapping[str, str]) -> RequestHeaderSettings:
    def listed(key: str) -> tuple[str, ...]:
        text = data.get(f"requestheader-{key}")
        try:
            return msgspec.json.decode(text, type=tuple[str, ...]) if text else ()
        except UNDECODABLE as error:
            problem = undecodable(error)
            raise ServingError(f"requestheader-{key}: expected a JSON list of strings: {problem}") from None

    return RequestHeaderSettings(
        allowed_names=listed("allowed-names"),
        username_headers=listed("username-headers"),
        uid_headers=listed("uid-headers"),
        group_headers=listed("group-headers"),
        extra_headers_prefix=listed("extra-headers-prefix"),
    )
