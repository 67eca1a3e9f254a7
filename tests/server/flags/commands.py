"""Calling `stowplan run` in this process, without a scheduler behind it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from io import StringIO

from stowplan.server.command import main
from stowplan.server.options import RunOptions
from stowplan.server.startup import StartupPlan

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: here
clusters: [{name: here, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: here, context: {cluster: here, user: me}}]
users: [{name: me, user: {token: secret}}]
"""


@dataclass
class Called:
    """Result of a command line."""

    code: int
    stdout: str
    stderr: str
    plans: list[StartupPlan] = field(default_factory=list)

    @property
    def options(self) -> RunOptions:
        (plan,) = self.plans
        return plan.options

    @property
    def messages(self) -> list[str]:
        """The lines of the log without severity, time and place."""
        return [line.partition("] ")[2] for line in self.stderr.splitlines()]


def call(*arguments: str, environ: Mapping[str, str] | None = None) -> Called:
    stdout, stderr = StringIO(), StringIO()
    plans: list[StartupPlan] = []

    def run(plan: StartupPlan) -> int:
        plans.append(plan)
        return 0

    code = main(arguments, run, environ=environ or {}, stdout=stdout, stderr=stderr)
    return Called(code, stdout.getvalue(), stderr.getvalue(), plans)
