"""Schedulers exit as kube-scheduler was recorded to: the exit code, the last line, and why.

Each case is a separate process, or one of the lives that other tests check, too.
"""

import asyncio
import json
import re

import pytest

from runtime.logs.reading import Line, entries
from server.process.process_endings import CASES, PLAYS, Outcome, all_endings
from server.process.process_lives import Ended, Lives

IN_LIVES = {
    "signal-sigterm-leader": "leader",
    "signal-sigusr2-candidate": "standby",
    "signal-sigterm-no-leader-election": "blind",
    "signal-sigusr1": "lonely",
    "signal-sigusr2-dump-v2": "lonely",
    "signal-sigusr2-dump-json": "open",
}
"""Cases that are part of a longer life."""

DIFFERENT = {
    "signal-sighup": "SIGHUP has the configuration file read again; it ends kube-scheduler",
    "lease-lost-renew-500-short": "all leases are lost with the short times of this case",
}
OTHER_LAST_LINE = {
    "cert-file-missing": "the flag is named whose file cannot be read",
    "signal-sigint-twice": "how far the first signal got is a matter of chance",
    "signal-sigint-twice-leader": "how far the first signal got is a matter of chance",
}
LOST = [name for name in PLAYS if name.startswith("lease-lost")]
CUT_SHORT = {
    "Error retrieving lease lock": "the renew deadline may come before the answer",
    "error retrieving resource lock": "a lost lease is given back only if that takes no longer than a second",
    "Failed to release lease": "said if it takes longer",
}
"""Log lines about the lease that depend on the race between an answer and a timeout."""
DUMPED = ("nodes", "summary", "pods")
PORT = re.compile(r"127\.0\.0\.1:\d+")


@pytest.fixture(scope="module")
def endings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    return asyncio.run(all_endings(tmp_path_factory.mktemp("endings")))


def lines_of(log: list[str]) -> list[Line]:
    return entries("\n".join(log) + "\n")


def recorded_lines(name: str) -> list[Line]:
    case = CASES[name]
    text = case.get("stderr") or case["log_after"]
    return lines_of([line for line in text.splitlines() if not line.startswith("(...")])


def test_every_recorded_process_is_accounted_for() -> None:
    needed = {
        name for name, case in CASES.items() if {"signals", "killed", "seconds_after_fault"} & case.keys()
    }
    needed |= {"port-in-use", "cert-file-missing", "authn-lookup-intolerant"}
    assert {*PLAYS, *IN_LIVES, *DIFFERENT} == needed


@pytest.mark.parametrize("name", PLAYS)
def test_the_exit_code_is_the_recorded_one(name: str, endings: dict[str, Outcome]) -> None:
    assert endings[name].code == CASES[name]["rc"], endings[name].log


@pytest.mark.parametrize("name", [name for name in PLAYS if name not in OTHER_LAST_LINE])
def test_the_last_line_is_the_recorded_one(name: str, endings: dict[str, Outcome]) -> None:
    (*_, own), (*_, theirs) = lines_of(endings[name].log), recorded_lines(name)
    assert (own.severity, PORT.sub("$ADDRESS", own.text)) == (
        theirs.severity,
        PORT.sub("$ADDRESS", theirs.text),
    )


@pytest.mark.parametrize("name", IN_LIVES)
def test_longer_lives_end_as_recorded(name: str, lives: Lives, unelected: dict[str, Ended]) -> None:
    who = IN_LIVES[name]
    ended: Ended = unelected[who] if who in unelected else getattr(lives, who)
    assert ended.code == CASES[name]["rc"]
    message = "Requested to terminate, exiting" if ended.code == 0 else "finished without leader elect"
    assert message in ended.log[-1]
    assert message in CASES[name]["log_after"].splitlines()[-1]


def dumped(log: str) -> dict[str, list[str]]:
    """Dump of nodes and queue on request, from a log in either form."""
    if log.startswith("{"):
        told = [json.loads(line) for line in log.splitlines()]
        values = {
            key: one[key] for one in told if one["msg"].startswith("Dump of") for key in DUMPED if key in one
        }
    else:
        lines = [line for line in lines_of(log.splitlines()) if str(line.message).startswith("Dump of")]
        values = {key: value.strip('<> "\n') for line in lines for key, value in line.values}
    return {
        key: sorted(re.sub("uid: [-0-9a-f]+", "uid", line.strip()) for line in value.splitlines())
        for key, value in values.items()
    }


@pytest.mark.parametrize("name", ["signal-sigusr2-dump-v2", "signal-sigusr2-dump-json"])
def test_what_is_believed_is_dumped_as_recorded(name: str, unelected: dict[str, Ended]) -> None:
    theirs = dumped(CASES[name]["log_after"])
    assert set(theirs) == set(DUMPED)
    assert dumped("\n".join(unelected[IN_LIVES[name]].log)) == theirs


def test_sighup_ends_nobody(unelected: dict[str, Ended]) -> None:
    """This one had no file to read again, which is all that it says."""
    assert CASES["signal-sighup"]["rc"] == -1
    asked = next(one for one in unelected["lonely"].log if "Configuration was not reloaded" in one)
    assert "started without --config" in asked


def test_a_file_that_is_missing_is_named_with_its_flag(endings: dict[str, Outcome]) -> None:
    (last,) = [line for line in endings["cert-file-missing"].log if "command failed" in line]
    assert "--tls-cert-file: cannot read" in last
    assert "no.crt: No such file or directory" in last


def test_a_second_signal_does_not_wait_for_the_lease(endings: dict[str, Outcome]) -> None:
    assert "Requested to terminate" not in "\n".join(endings["signal-sigint-twice-leader"].log)


@pytest.mark.parametrize("name", LOST)
def test_a_lease_is_lost_at_the_renew_deadline(name: str, endings: dict[str, Outcome]) -> None:
    """Four seconds after the fault in the recording. That it is not later is tested in virtual time
    (tests/client/election): a process on a busy machine may take longer."""
    expected = CASES["lease-lost-renew-500-short"]["seconds_after_fault"]
    assert expected / 3 < endings[name].seconds


@pytest.mark.parametrize("name", LOST)
def test_the_loss_of_a_lease_is_told_in_the_recorded_words(name: str, endings: dict[str, Outcome]) -> None:
    log = lines_of(endings[name].log)
    elected = next(number for number, line in enumerate(log) if line.message == "Successfully acquired lease")
    own = {
        (line.severity, line.message, line.keys)
        for line in log[elected + 1 :]
        if line.file in ("claim.py", "elector.py")
    }
    theirs = {
        (line.severity, line.message, line.keys)
        for line in recorded_lines(name)
        if line.file == "leaderelection.go"
    }
    assert {message for _, message, _ in own ^ theirs} <= set(CUT_SHORT)


def test_health_is_good_until_the_end(endings: dict[str, Outcome]) -> None:
    assert endings["lease-lost-renew-500"].health == [(200, "[+]leaderElection ok\nhealthz check passed\n")]


def test_failing_to_look_up_settings_is_told_in_the_recorded_words(endings: dict[str, Outcome]) -> None:
    name = "unreachable-server-authn-lookup"
    own = {line.message or line.text for line in lines_of(endings[name].log) if line.severity == "W"}
    theirs = {line.text for line in recorded_lines(name) if line.severity == "W"}
    for text in theirs:
        assert text.partition(": ")[0] in own


@pytest.mark.parametrize("name", ["bad-token-401", "no-rbac-403"])
def test_who_may_not_watch_is_told_of_every_kind(name: str, endings: dict[str, Outcome]) -> None:
    """Of 21 caches three are of the secure port, which is off. Pods and nodes are listed first."""
    own = [
        dict(line.values)["err"] for line in lines_of(endings[name].log) if line.message == "Failed to watch"
    ]
    for one in own:
        verb = "list" if one.startswith(('"cannot watch pods:', '"cannot watch nodes:')) else "watch"
        refused = f'User \\"nobody\\" cannot {verb} resource'
        assert ("Unauthorized" if name == "bad-token-401" else refused) in one
    kinds = {one.strip('"').removeprefix("cannot watch ").partition(":")[0] for one in own}
    assert len(kinds) == len(
        {dict(line.values)["type"] for line in recorded_lines(name) if line.message == "Failed to watch"}
    )
