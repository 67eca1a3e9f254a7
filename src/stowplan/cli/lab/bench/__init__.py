"""`stowplan bench`: measuring stowplan on this machine."""

import click

from stowplan.cli.lab.bench.engine import engine_command, hostile_command, metrics_command, table_command
from stowplan.cli.lab.bench.loop import churn_command, loop_command
from stowplan.cli.lab.bench.memory import growth_command, soak_command
from stowplan.cli.lab.bench.perf import perf
from stowplan.cli.lab.bench.questions import day_command, explain_command, paper_command, questions_command
from stowplan.cli.lab.bench.scale import list_command, scale_command, start_command
from stowplan.cli.lab.bench.servers import (
    apiserver_command,
    durable_command,
    http_client_command,
    http_command,
    up_command,
)
from stowplan.cli.lab.bench.waiting import preemption_command, waking_command


@click.group("bench")
def bench() -> None:
    """Measure stowplan on this machine."""


for _command in (
    engine_command,
    table_command,
    hostile_command,
    metrics_command,
    loop_command,
    churn_command,
    waking_command,
    preemption_command,
    perf,
    soak_command,
    growth_command,
    explain_command,
    questions_command,
    day_command,
    paper_command,
    apiserver_command,
    http_command,
    http_client_command,
    durable_command,
    up_command,
    start_command,
    list_command,
    scale_command,
):
    bench.add_command(_command)
