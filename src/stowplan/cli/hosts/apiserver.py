"""`stowplan apiserver`: the store behind HTTPS, for kubectl and everybody else."""

import asyncio
import random
import signal
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from stowplan.api import pod_groups
from stowplan.api.gates.feature_gates import GATE_GROUPS, FeatureGates
from stowplan.api.status import ApiError
from stowplan.cli.options import release_options, remote_options, remote_settings
from stowplan.localcluster.admission import (
    ClusterAdmission,
    create_bootstrap_objects,
    publish_authority,
    publish_server,
)
from stowplan.localcluster.admission.devicefeatures import GATES as OF_DEVICES
from stowplan.localcluster.admission.plugins import PLUGIN_NAMES
from stowplan.localcluster.admission.webhooks import WebhookStage
from stowplan.localcluster.apiserver import ApiServer, Listening
from stowplan.localcluster.apiserver.server import kubeconfig_path, write_kubeconfig
from stowplan.localcluster.auth.certificates import CertificateAuthority
from stowplan.localcluster.auth.tokens import DEFAULT_ISSUER, SigningKey
from stowplan.localcluster.durable import DataDirError, open_data_dir
from stowplan.localcluster.objects.groupfeatures import GroupFeatures
from stowplan.localcluster.remote.calls import RemoteServers
from stowplan.localcluster.remote.conversion import ConversionWebhooks
from stowplan.localcluster.store import FieldManager, Store
from stowplan.runtime.clock import RealClock

_OF_GROUPS: Final = frozenset((*pod_groups.GATES, *GATE_GROUPS))


@click.command("apiserver")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, show_default="a free port", help="Port to listen on."
)
@click.option("--bind", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--token", help="Bearer token of clients; generated if not set.")
@click.option(
    "--kubeconfig-out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write the kubeconfig; a temporary file if not set.",
)
@click.option("--insecure-http", is_flag=True, help="Serve plain HTTP. Clients still need the token.")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Persist all objects in this directory and load them at the start.",
)
@click.option(
    "--disable-admission-plugins",
    metavar="NAMES",
    default="",
    help="Admission plugins to leave out, separated by commas. Without controllers, ServiceAccount refuses "
    "pods in namespaces that have no default account, and TaintNodesByCondition keeps pods from new nodes.",
)
@click.option(
    "--service-account-issuer",
    default=DEFAULT_ISSUER,
    show_default=True,
    help="Issuer of service account tokens, and their default audience.",
)
@remote_options
@release_options
def apiserver(
    port: int,
    bind: str,
    token: str | None,
    kubeconfig_out: Path | None,
    insecure_http: bool,
    data_dir: Path | None,
    disable_admission_plugins: str,
    service_account_issuer: str,
    services: tuple[str, ...],
    webhooks: str,
    feature_gates: tuple[str, ...],
    emulated_version: tuple[str, ...],
    min_compatibility_version: tuple[str, ...],
) -> None:
    """Run a Kubernetes API server.

    It stores objects and serves watches until Ctrl-C. It has no scheduler, controllers or kubelets: start
    those separately, or use `stowplan up`. Objects are in memory unless `--data-dir` is set. It listens
    on loopback unless `--bind` is set, and every request needs the token. Pod groups are served unless
    `--feature-gates` turns them off.
    """
    if token is not None and (not token or not token.isascii() or not token.isprintable() or " " in token):
        raise click.BadParameter("expected printable characters without blanks", param_hint="--token")
    listening = Listening(bind, port, plain=insecure_http, issuer=service_account_issuer)
    if token is not None:
        listening = replace(listening, token=token)
    clock = RealClock()
    disabled = _plugins(disable_admission_plugins)
    settings = remote_settings(services, webhooks)
    gates = _gates(feature_gates, emulated_version, min_compatibility_version)
    groups = GroupFeatures.of(gates) if _names_any(feature_gates, _OF_GROUPS) else GroupFeatures()
    admission = ClusterAdmission(disabled=disabled, groups=groups, gates=gates)
    store = Store(
        clock,
        random.Random(),
        admission=admission,
        fields=FieldManager(),
        catalogue=groups.catalogue(),
    )
    try:
        keeper = None if data_dir is None else open_data_dir(store, data_dir)
        try:
            key = SigningKey() if data_dir is None else SigningKey.kept_in(data_dir)
            authority = None if data_dir is None else CertificateAuthority.kept_in(data_dir, clock.now())
            remote = RemoteServers(store, settings)
            store.definitions.converter = ConversionWebhooks(remote)
            admission.stages = (*admission.stages, WebhookStage(store, remote))
            server = ApiServer(
                store,
                listening,
                clock=clock,
                signing_key=key,
                authority=authority,
                release=gates.release,
            )
            asyncio.run(_serve(store, server, remote, kubeconfig_out))
        finally:
            if keeper is not None:
                keeper.close()
    except (DataDirError, ApiError) as error:
        raise click.ClickException(str(error)) from None


def _gates(settings: tuple[str, ...], emulated: tuple[str, ...], compatible: tuple[str, ...]) -> FeatureGates:
    """The feature gates of options; most of those that there are mean nothing to an API server."""
    if not (settings or emulated or compatible):
        return FeatureGates()
    from stowplan.cli.config import read_gates

    def why_without_effect(gate: str) -> str:
        return "" if gate in _OF_GROUPS or gate in OF_DEVICES else "the API server does not use it"

    return read_gates(settings, emulated, compatible, why_without_effect)


def _names_any(settings: tuple[str, ...], gates: Collection[str]) -> bool:
    """True if any of some gates is switched, on or off."""
    return any(one.partition("=")[0].strip() in gates for text in settings for one in text.split(","))


def _plugins(names: str) -> list[str]:
    """Admission plugins by their names."""
    given = [name.strip() for name in names.split(",") if name.strip()]
    for name in given:
        if name not in PLUGIN_NAMES:
            text = f"{name!r} is unknown; expected some of {', '.join(sorted(PLUGIN_NAMES))}"
            raise click.BadParameter(text, param_hint="--disable-admission-plugins")
    return given


async def _serve(store: Store, server: ApiServer, remote: RemoteServers, out: Path | None) -> None:
    create_bootstrap_objects(store)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    async with server:
        publish_server(store, server.address, server.port)
        server.handler.api_services.start()
        publish_authority(store, server.url, server.certificate)
        path = kubeconfig_path(out)
        write_kubeconfig(path, server.kubeconfig())
        click.echo(f"listening on {server.url}")
        click.echo(f"export KUBECONFIG={path}")
        await ended.wait()
        click.echo("stopping")
        await remote.caller.close()
        if out is None:
            path.unlink(missing_ok=True)
