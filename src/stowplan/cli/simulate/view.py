"""`stowplan view`: the page of any cluster, for oneself and, with a link, for others."""

import asyncio
import socket
import ssl
from contextlib import AsyncExitStack
from hashlib import sha256
from ipaddress import ip_address
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import click

from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.meta import timestamp
from stowplan.cli.explain.explain import connect
from stowplan.cli.explain.offline import scheduler_settings
from stowplan.cli.output import say
from stowplan.cli.simulate.shadow import following, until_ended, watching_options
from stowplan.cli.values import Seconds
from stowplan.config.dump import dump
from stowplan.explain.web import Inspection, Routes
from stowplan.explain.web.http import PageServer
from stowplan.explain.web.sharing import SharedPage, Sharing, own_address
from stowplan.runtime.clock import RealClock
from stowplan.scheduler import Settings
from stowplan.server.serving.certificates import Certificate, self_signed
from stowplan.simulate.questions import ForkedQuestions
from stowplan.simulate.shadow import Tally

_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
_OWN: Final = "the address towards the cluster"
_EVERYWHERE: Final = ("0.0.0.0", "::")


@click.command("view")
@watching_options
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, show_default="a free port", help="Port of the page."
)
@click.option(
    "--share",
    is_flag=False,
    flag_value=_OWN,
    metavar="[ADDRESS[:PORT]]",
    help=f"Also serve the page to others, over TLS, on this address [default: {_OWN}].",
)
@click.option(
    "--share-for",
    type=Seconds(),
    default="8h",
    show_default=True,
    help="Time after which the shared link ends.",
)
@click.option("--tls-cert-file", type=_FILE, help="Certificate of the shared page [default: self-signed].")
@click.option("--tls-private-key-file", type=_FILE, help="Key of that certificate.")
def view(
    kubeconfig: Path | None,
    context: str,
    config: Path | None,
    gates: FeatureGates | None,
    plugins: tuple[str, ...],
    port: int,
    share: str | None,
    share_for: float,
    tls_cert_file: Path | None,
    tls_private_key_file: Path | None,
) -> None:
    """Show any cluster on a page in the browser.

    Reads only. The page is served on loopback until Ctrl-C; its address contains a token. Explanations are
    computed locally, with the default profile or that of --config.

    With --share others see it, too: everything that you may read, without the YAML of objects. Whoever has
    the link is let in until it ends.
    """
    if (tls_cert_file is None) != (tls_private_key_file is None):
        raise click.UsageError("--tls-cert-file and --tls-private-key-file: expected both or neither")
    if tls_cert_file is not None and share is None:
        raise click.UsageError("--tls-cert-file: expected --share with it; the page on loopback has no TLS")
    sharing = None
    if share is not None:
        sharing = _Sharing(share, share_for, tls_cert_file, tls_private_key_file)
    settings = scheduler_settings(config, gates, plugins)
    asyncio.run(_view(kubeconfig, context, settings, port, sharing))


class _Sharing(NamedTuple):
    """The options of a shared page."""

    address: str
    seconds: float
    certificate_file: Path | None
    key_file: Path | None

    def settings(self, api_server: str, now: float) -> tuple[Sharing, str]:
        """Settings of the shared page, and the digest of its certificate if that is self-signed."""
        bind, port = self._address(api_server)
        host = socket.gethostname() if bind in _EVERYWHERE else bind
        pair, digest = self._certificate(host, now)
        try:
            return Sharing(bind, port, host, pair.context(), self.seconds), digest
        except (ssl.SSLError, ValueError) as error:
            raise click.ClickException(
                f"--tls-cert-file: expected a certificate and its key: {error}"
            ) from None

    def _address(self, api_server: str) -> tuple[str, int]:
        if self.address == _OWN:
            host, _, port = api_server.rpartition(":")
            found = own_address(host.strip("[]"), int(port))
            if ip_address(found).is_loopback:
                raise click.ClickException(
                    "--share: expected the ADDRESS of a network: the cluster is on this machine"
                )
            return found, 0
        try:
            parts = urlsplit(f"//{self.address}")
            bind, asked = parts.hostname or "", parts.port or 0
        except ValueError:
            bind, asked = "", 0
        if not bind or parts.path:
            raise click.ClickException(f"--share: expected ADDRESS or ADDRESS:PORT, got {self.address!r}")
        return bind, asked

    def _certificate(self, host: str, now: float) -> tuple[Certificate, str]:
        if self.certificate_file is not None and self.key_file is not None:
            return Certificate(self.certificate_file.read_bytes(), self.key_file.read_bytes()), ""
        made = self_signed("stowplan view", [host], now)
        digest = sha256(ssl.PEM_cert_to_DER_cert(made.certificate.decode())).hexdigest().upper()
        return made, ":".join(digest[at : at + 2] for at in range(0, len(digest), 2))


async def _view(
    kubeconfig: Path | None, context: str, settings: Settings, port: int, sharing: _Sharing | None
) -> None:
    clock = RealClock()
    async with AsyncExitStack() as stack:
        client, where, _ = await stack.enter_async_context(connect(kubeconfig, context, "stowplan-view"))
        shared_settings = None if sharing is None else sharing.settings(where, clock.now())
        report = Tally()
        scheduler, follower = await stack.enter_async_context(following(client, settings, clock, report.add))
        inspection = Inspection(
            lambda: scheduler, cluster=where, release=settings.release.version, leads=lambda: False
        )
        routes = Routes(inspection, lambda: dump(settings.config.config), ForkedQuestions())
        await stack.enter_async_context(inspection.following())
        shared, digest = None, ""
        if shared_settings is not None:
            settings_of_page, digest = shared_settings
            shared = await _serving(stack, SharedPage(routes, settings_of_page, clock))
        page = PageServer(routes, port, lambda: None if shared is None else shared.url)
        await stack.enter_async_context(page)
        say(f"{where}: {scheduler.context.cache.table.node_count} nodes")
        say(f"Look at it: {page.url}")
        if shared is not None:
            say(f"For others, until {timestamp(shared.ends)}: {shared.url}")
            say("Whoever has that link sees all that you may read, except the YAML of objects.")
        if digest:
            say(f"Its certificate is self-signed; SHA-256 {digest}")
        say("Ctrl-C ends it.")
        await until_ended(asyncio.Event(), None, follower.settle)
    say(report.line())


async def _serving(stack: AsyncExitStack, page: SharedPage) -> SharedPage:
    try:
        return await stack.enter_async_context(page)
    except OSError as error:
        raise click.ClickException(f"--share: {error.strerror or error}") from None
