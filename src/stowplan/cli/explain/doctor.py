"""`stowplan doctor`: checks if `stowplan run` would work on a cluster, before it is tried."""

import asyncio
import os
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from stowplan.api.status import ApiError
from stowplan.cli.explain.explain import NoServerError, connect, dump
from stowplan.cli.explain.running import RunningScheduler
from stowplan.cli.options import gates_options, plugins_option
from stowplan.cli.output import say
from stowplan.explain.layout import Palette, cleaned

if TYPE_CHECKING:
    from stowplan.api.gates.feature_gates import FeatureGates

_COLOURS: Final = {"ok": "green", "unknown": "yellow", "warning": "yellow", "failed": "red"}
_VERDICTS: Final = {
    "ok": "stowplan run would work here.",
    "unknown": "stowplan run would work here; not everything could be checked.",
    "warning": "stowplan run would work here, but for the warnings.",
    "failed": "stowplan run would not work here.",
}
_GRANTS: Final = (
    "create clusterrolebinding stowplan-scheduler --clusterrole=system:kube-scheduler",
    "create clusterrolebinding stowplan-volumes --clusterrole=system:volume-scheduler",
    "create rolebinding -n kube-system stowplan --role=extension-apiserver-authentication-reader",
)
"""Manifest that grants the rights that kube-scheduler has, on every cluster."""

_EMBEDDED: Final = {
    "check": "embedded",
    "level": "ok",
    "message": "this is a cluster of `stowplan up`, whose own scheduler holds no lease",
    "effect": "another scheduler there needs another schedulerName",
}


class UnreachableError(click.ClickException):
    """The API server could not be asked."""

    exit_code = 2


@click.command("doctor")
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    help="Kubeconfig that the scheduler would use [default: as kubectl].",
)
@click.option("--context", default="", help="Context of the kubeconfig to use.")
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="KubeSchedulerConfiguration of the scheduler: its plugins, lease and profiles are checked.",
)
@gates_options
@plugins_option
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "yaml"]),
    default="text",
    show_default=True,
    help="Output format.",
)
@click.pass_context
def doctor(
    ctx: click.Context,
    kubeconfig: Path | None,
    context: str,
    config: Path | None,
    gates: "FeatureGates | None",
    plugins: tuple[str, ...],
    output: str,
) -> None:
    """Check whether stowplan can schedule a cluster.

    Checks the configuration with its plugins, the version of the API server, the user of the credentials, the
    clock, the API versions and rights that a scheduler needs, the lease and its holder, and pending pods, and
    reads every object that a scheduler reads, naming those that cannot be decoded. Nothing is changed on the
    cluster.

    Exit code 0: it would work, maybe with warnings; 1: no pod would be scheduled; 2: the API server did not
    answer.
    """
    given = Given(kubeconfig, context, config, gates, plugins)
    address, findings = asyncio.run(_checked(given))
    level = max((one["level"] for one in findings), key=list(_COLOURS).index)
    if output == "text":
        _show(address, cleaned(findings), level)
    else:
        dump({"server": address, "level": level, "findings": findings}, output)
    ctx.exit(1 if level == "failed" else 0)


class Given(NamedTuple):
    """The options of a scheduler."""

    kubeconfig: Path | None
    context: str
    config: Path | None
    gates: "FeatureGates | None"
    plugins: tuple[str, ...]


async def _checked(given: Given) -> tuple[str, list[dict[str, Any]]]:
    from stowplan.api.gates.feature_gates import DEFAULT_GATES
    from stowplan.cli.one_line import one_line_errors
    from stowplan.config import default_config
    from stowplan.config.legacy import load_any_file
    from stowplan.server.preflight import Preflight

    with one_line_errors():
        gates = DEFAULT_GATES if given.gates is None else given.gates
        loaded = default_config(gates) if given.config is None else load_any_file(given.config, gates)
    own = loaded.config.client_connection.kubeconfig
    kubeconfig = Path(own) if own and given.kubeconfig is None else given.kubeconfig
    address = ""
    try:
        async with connect(kubeconfig, given.context, "stowplan-doctor") as (client, address, _):
            preflight = Preflight(client, loaded.config, gates)
            found = [*_of_configuration(given, gates, own)]
            found += [finding.document() async for finding in preflight.findings()]
            if await RunningScheduler.find(client) is not None:
                found.append(_EMBEDDED)
            return address, found
    except NoServerError as error:
        raise UnreachableError(error.message) from None
    except ApiError as error:
        raise UnreachableError(f"the API server at {address} does not answer: {error.message}") from None


def _of_configuration(given: Given, gates: "FeatureGates", own: str) -> Iterator[dict[str, Any]]:
    """Findings about --config: plugins, and the kubeconfig that `run` would use. `own` is its kubeconfig."""
    from stowplan.cli.config import built_file
    from stowplan.config import ConfigError
    from stowplan.scheduler.framework.status import ProfileError

    if given.config is None:
        return
    try:
        _, built = built_file(str(given.config), gates, given.plugins)
    except (ConfigError, ProfileError) as error:
        message = " ".join(str(error).split())
        yield {
            "check": "config",
            "level": "failed",
            "message": f"{given.config}: {message}",
            "effect": "stowplan run ends at its start",
        }
    else:
        names = ", ".join(profile.scheduler_name for profile in built.profiles)
        yield {"check": "config", "level": "ok", "message": f"{given.config} is valid, for {names}"}
    if given.kubeconfig is None or (own and Path(own).resolve() == given.kubeconfig.resolve()):
        return
    in_pod = bool(own or os.environ.get("KUBERNETES_SERVICE_HOST"))
    used = own or "the in-cluster configuration" + ("" if in_pod else ", which does not exist here")
    yield {
        "check": "kubeconfig",
        "level": "warning" if in_pod else "failed",
        "message": f"stowplan run ignores --kubeconfig if --config is set, and uses {used}",
        "effect": f"set clientConnection.kubeconfig in {given.config}",
    }


def _show(address: str, findings: Sequence[dict[str, Any]], level: str) -> None:
    palette = Palette.of(sys.stdout, os.environ)
    lines = [f"API server at {address}", ""]
    width = max(len(one["check"]) for one in findings)
    for one in _by_effect(findings):
        mark = palette.paint(f"{one['level']:7}", _COLOURS[one["level"]])
        lines.append(f"{mark}  {one['check']:{width}}  {one['message']}")
        if "effect" in one:
            lines.append(f"{'':{7 + 2 + width}}  → {one['effect']}")
    say("\n".join([*lines, "", _VERDICTS[level], *_remedy(findings)]), color=palette.enabled)


def _by_effect(findings: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Findings as they are read: what may not be done with the same effect in one line, the worst first."""
    denied = [one for one in findings if _is_denied(one)]
    groups: dict[tuple[str, ...], list[str]] = {}
    for one in sorted(denied, key=lambda one: str(one["level"])):
        verbs = f"may not {' or '.join(one['verbs'])} "
        shown = str(one["message"]).removeprefix(verbs)
        groups.setdefault((one["level"], verbs, one["effect"]), []).append(shown)
    for finding in findings:
        if finding is (denied[0] if denied else None):
            for (level, verbs, effect), resources in groups.items():
                message = verbs + ", ".join(resources)
                yield {"check": "rights", "level": level, "message": message, "effect": effect}
        if not _is_denied(finding):
            yield finding


def _remedy(findings: Sequence[dict[str, Any]]) -> Iterator[str]:
    """How to get rights without which it does not work."""
    user = next((one["user"] for one in findings if one["check"] == "identity" and "user" in one), "")
    if not user or not any(_is_denied(one) and one["level"] == "failed" for one in findings):
        return
    account = re.fullmatch(r"system:serviceaccount:([^:]+):([^:]+)", user)
    who = f"--serviceaccount={account[1]}:{account[2]}" if account else f"--user={shlex.quote(user)}"
    yield "The manifests in deploy/ come with the rights. To give this user those of kube-scheduler:\n"
    yield from (f"  kubectl {grant} {who}" for grant in _GRANTS)


def _is_denied(finding: dict[str, Any]) -> bool:
    return finding["check"] == "rights" and "resource" in finding
