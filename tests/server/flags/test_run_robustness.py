"""Whatever stands on the command line, there is an exit code and a line that says why."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from server.flags.commands import call
from stowplan.server.flags.table import GROUPS

_NAMES = [
    f"--{flag.name}"
    for group in GROUPS
    for flag in group.flags
    if flag.name not in ("write-config-to", "plugin")
]
_VALUES = st.one_of(
    st.sampled_from(
        [
            "true",
            "false",
            "0",
            "1",
            "-1",
            "5s",
            "a,b",
            "a=b",
            "text",
            "json",
            "1.2.3.4",
            "1.35",
            "raw",
            '"',
            "",
        ]
    ),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12),
    st.just("x" * 5000),
)
_ARGUMENTS = st.one_of(
    st.sampled_from(_NAMES),
    st.tuples(st.sampled_from(_NAMES), _VALUES).map("=".join),
    _VALUES,
    st.sampled_from(["-v", "-v=3", "-h", "--", "-", "-vx"]),
)


@pytest.fixture(scope="module", autouse=True)
def _elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Where no file is by chance called like an argument."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("empty"))
        yield


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(_ARGUMENTS, max_size=5))
def test_any_arguments_give_a_clean_exit_code(arguments: list[str]) -> None:
    called = call(*arguments)
    assert called.code in (0, 1)
    assert "Traceback" not in called.stderr
    if called.code:
        last = called.stderr.rstrip("\n").splitlines()[-1]
        assert last.startswith(("Error: ", "E", "{", " >")) or ": " in last
    else:
        assert called.stdout or called.plans


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=60))
def test_any_file_as_a_kubeconfig_gives_a_clean_exit_code(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = Path(tmp_path_factory.getbasetemp()) / "some.kubeconfig"
    path.write_bytes(data)
    called = call("--kubeconfig", str(path), "--secure-port=0")
    assert called.code == 1
    assert '"command failed"' in called.stderr
