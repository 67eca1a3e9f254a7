"""From a parsed command line to a process that may start: settings, log, server, profiles."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from stowplan.api.fielderrors import aggregate
from stowplan.client.http import Server
from stowplan.clock import Clock
from stowplan.config.load import ConfigError
from stowplan.gocompat.quoting import quote
from stowplan.logs import Journal, LogSettings, ProcessJournal
from stowplan.run.access import find_server
from stowplan.run.configuration import policy_at_start
from stowplan.run.flags.parser import Parsed
from stowplan.run.gates import ProcessGates, read_gates
from stowplan.run.options import Options, log_problems, log_settings, options_from, with_policy
from stowplan.run.preparing import Prepared, prepare, write_config
from stowplan.run.version import version_answer

OpenJournal = Callable[[LogSettings], ProcessJournal]
"""Starts a log."""


@dataclass(frozen=True, slots=True)
class Launch:
    """Everything that is known before the scheduler starts."""

    options: Options
    server: Server
    prepared: Prepared
    journal: ProcessJournal
    clock: Clock


Run = Callable[[Launch], int]
"""Runs a scheduler to its end and gives the exit code. What it raises as ConfigError is told in one line."""


def start(
    parsed: Parsed,
    run: Run,
    clock: Clock,
    *,
    open_journal: OpenJournal,
    environ: Mapping[str, str],
    say: Callable[[str], None],
    complain: Callable[[str], None],
) -> int:
    """Check everything, then run (or only write the configuration). Gives the exit code."""
    try:
        gates = read_gates(parsed.value("feature-gates"))
    except ConfigError as error:
        with open_journal(LogSettings()) as journal:
            return failed(journal, error)
    if answer := version_answer(parsed.text("version")):
        say(answer)
        return 0
    logs = log_settings(parsed)
    problems = list(log_problems(logs, gates))
    if problems:
        complain(aggregate(problems))
        return 1
    with open_journal(logs) as journal:
        try:
            launch = _launch(_told_options(parsed, gates, logs, journal), journal, clock, environ)
            return 0 if launch is None else run(launch)
        except ConfigError as error:
            return failed(journal, error)


def failed(journal: Journal, error: ConfigError) -> int:
    """Tell why there will be no scheduler; the exit code."""
    journal.problem("command failed", err=str(error))
    return 1


def _told_options(parsed: Parsed, gates: ProcessGates, logs: LogSettings, journal: Journal) -> Options:
    """The options, with every flag told to those who want detail, and what is not done as asked to all."""
    if journal.shows(1):
        for name, value in parsed.shown().items():
            journal.plain(1, f"FLAG: --{name}={quote(value)}")
    options = options_from(parsed, gates, logs)
    for warning in options.warnings:
        journal.warning(warning)
    return options


def _launch(
    options: Options, journal: ProcessJournal, clock: Clock, environ: Mapping[str, str]
) -> Launch | None:
    """What the scheduler starts with; nothing if the configuration was only to be written."""
    server = find_server(options.client.kubeconfig, options.client.master, journal, environ)
    if options.config_map is not None:
        options = with_policy(options, policy_at_start(server, options.config_map, clock, environ))
    for note in options.loaded.legacy.notes:
        journal.warning(note)
    prepared = prepare(options)
    if journal.shows(2):
        journal.info(2, "Using component config", config=prepared.text)
    if options.write_config_to:
        write_config(prepared, options.write_config_to, journal)
        return None
    return Launch(options, server, prepared, journal, clock)
