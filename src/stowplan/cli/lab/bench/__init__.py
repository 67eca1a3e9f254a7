"""`stowplan bench`: measuring stowplan on this machine."""

from typing import Final

import click

from stowplan.cli.lazy import Commands

COMMANDS: Final = {
    "engine": "engine:engine_command",
    "table": "engine:table_command",
    "hostile": "engine:hostile_command",
    "metrics": "engine:metrics_command",
    "loop": "loop:loop_command",
    "churn": "loop:churn_command",
    "waking": "waiting:waking_command",
    "preemption": "waiting:preemption_command",
    "perf": "perf:perf",
    "soak": "memory:soak_command",
    "growth": "memory:growth_command",
    "explain": "questions:explain_command",
    "page": "questions:page_command",
    "questions": "questions:questions_command",
    "day": "questions:day_command",
    "paper": "questions:paper_command",
    "apiserver": "servers:apiserver_command",
    "http": "servers:http_command",
    "http-client": "servers:http_client_command",
    "durable": "servers:durable_command",
    "up": "servers:up_command",
    "start": "scale:start_command",
    "list": "scale:list_command",
    "scale": "scale:scale_command",
}


@click.group(
    "bench",
    commands=Commands({name: f"stowplan.cli.lab.bench.{place}" for name, place in COMMANDS.items()}),
)
def bench() -> None:
    """Measure stowplan on this machine."""
