"""Options of every command with a scheduler in it."""

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from stowplan.api.releases import DEFAULT, NEWEST, OLDEST_EMULATED

if TYPE_CHECKING:
    from stowplan.localcluster.remote.calls import RemoteSettings

_Command = TypeVar("_Command", bound=Callable[..., Any])

INTERVAL_SETTINGS: Final = {"token_normalize_func": lambda name: "interval" if name == "every" else name}
"""Context settings of commands with `--interval`, which also accept its old name `--every`."""

_GATE_OPTIONS = (
    click.option(
        "--feature-gates",
        metavar="GATE=BOOL,…",
        multiple=True,
        help="Feature gates, such as GenericWorkload=true. Can be repeated.",
    ),
    click.option(
        "--emulated-version",
        metavar="VERSION",
        multiple=True,
        help=f"Kubernetes version to emulate, {OLDEST_EMULATED} to {NEWEST.name} [default: {DEFAULT.name}].",
    ),
    click.option(
        "--min-compatibility-version",
        metavar="VERSION",
        multiple=True,
        help="Oldest Kubernetes version of other components; some feature gates depend on it.",
    ),
)


no_image_option: Final = click.option(
    "--no-image",
    metavar="PATTERN",
    multiple=True,
    help="Images that cannot be pulled, such as 'nonexistent.invalid/*'. Can be repeated.",
)
"""The option of commands with simulated kubelets that says which images do not exist."""


def gates_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that choose the release and switch its feature gates.

    The command gets `gates`: FeatureGates, or None if none of the options was used.
    """

    @wraps(command)
    def with_gates(
        *args: Any,
        feature_gates: tuple[str, ...],
        emulated_version: tuple[str, ...],
        min_compatibility_version: tuple[str, ...],
        **values: Any,
    ) -> Any:
        gates = None
        if feature_gates or emulated_version or min_compatibility_version:
            from stowplan.cli.config import read_gates

            gates = read_gates(feature_gates, emulated_version, min_compatibility_version)
        return command(*args, gates=gates, **values)

    return release_options(with_gates)


def release_options(command: _Command) -> _Command:
    """The options of `gates_options` as they were given, for a command that reads them itself."""
    for option in reversed(_GATE_OPTIONS):
        command = option(command)
    return command


def plugins_option(command: _Command) -> _Command:
    """The option that brings plugins from outside the tree."""
    option = click.option(
        "--plugin",
        "plugins",
        metavar="MODULE:CLASS",
        multiple=True,
        help="Out-of-tree plugin, as module:Class or file.py:Class[@sha256:DIGEST]. Can be repeated.",
    )
    return option(command)


def remote_options(command: _Command) -> _Command:
    """The options about servers that the API server calls, for `remote_settings`."""
    services = click.option(
        "--service",
        "services",
        metavar="NAME.NAMESPACE[:PORT]=HOST:PORT",
        multiple=True,
        help="Where a service is reached from this machine, for webhooks: "
        "--service webhook.default=127.0.0.1:9443. Can be repeated.",
    )
    webhooks = click.option(
        "--webhooks",
        type=click.Choice(("skip", "strict")),
        default="skip",
        show_default=True,
        help="Webhooks with nobody behind their service: skip them, or treat them as failed, as a real API "
        "server does.",
    )
    return services(webhooks(command))


def remote_settings(services: tuple[str, ...], webhooks: str) -> "RemoteSettings":
    """The settings of `remote_options`. Raises ClickException with one line about a wrong value."""
    from stowplan.localcluster.remote.calls import RemoteSettings
    from stowplan.localcluster.remote.services import read_services

    try:
        return RemoteSettings(read_services(services), webhooks == "strict")
    except ValueError as error:
        raise click.ClickException(f"--service: {error}") from None
