"""Campaigns guided by coverage, with atheris: a separate process, in which the parsers are instrumented.

The process runs this file by its path, because a module is instrumented only while it is imported for the
first time, and importing the package would import the parsers.
"""

import importlib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from stowplan.lab.fuzz.targets.mutation import TargetRun
    from stowplan.lab.fuzz.targets.target import FuzzTarget

_INSTRUMENTED: Final = (
    "stowplan.api.requests",
    "stowplan.api.cel.devices",
    "stowplan.client.http.body",
    "stowplan.client.http.decoder",
    "stowplan.client.http.http2",
    "stowplan.localcluster.schema.protobuf",
    "stowplan.gocompat.regexps",
    "stowplan.gocompat.yamltext",
)
"""The parsers. Their imports are instrumented, too. The rest is not: instrumenting takes long."""
_MEMORY_MB: Final = 3000
_PATIENCE: Final = 300.0
"""Seconds beyond the time of the campaign, for the start and the last input."""
_RUNS: Final = re.compile(r"Done (\d+) runs|^#(\d+)\s", re.MULTILINE)


def guided_campaign(target: "FuzzTarget", seconds: int, seed: int) -> "TargetRun":
    """Run a target under atheris for some seconds. Raises `RuntimeError` if its process fails."""
    from stowplan.lab.fuzz.targets.mutation import TargetRun, tried

    run = TargetRun(target, guided=True)
    with tempfile.TemporaryDirectory(prefix="stowplan-fuzz-") as name:
        folder = Path(name)
        inputs, broken = folder / "inputs", folder / "broken"
        inputs.mkdir()
        broken.mkdir()
        for number, data in enumerate((*target.failed_once, *target.seeds)):
            inputs.joinpath(f"seed-{number}").write_bytes(data)
        dictionary = folder / "words"
        dictionary.write_text("".join(map(_quoted, target.words)))
        done = _run(
            [
                *(sys.executable, "-P", __file__, target.name, str(broken), str(inputs)),
                *(
                    f"-max_total_time={seconds}",
                    f"-seed={seed}",
                    f"-rss_limit_mb={_MEMORY_MB}",
                    "-max_len=4096",
                ),
                *(f"-dict={dictionary}", f"-artifact_prefix={folder}/", "-timeout=30"),
            ],
            seconds + _PATIENCE,
        )
        counts = [int(one or other) for one, other in _RUNS.findall(done.stderr)]
        run.executions = max(counts, default=0)
        run.outcomes = sum(1 for _ in inputs.iterdir())
        ended = [path for kind in ("crash", "timeout", "oom") for path in folder.glob(f"{kind}-*")]
        if done.returncode and not ended:
            raise RuntimeError(f"atheris ended with {done.returncode}: {done.stderr[-500:]}")
        for path in sorted(broken.iterdir()):
            _, finding = tried(target, path.read_bytes())
            if finding is not None:
                run.add(finding)
        for path in ended:
            run.add(_ended(target, path))
    return run


def _run(command: list[str], timeout: float) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"atheris did not end within {timeout:g} seconds") from None


def _quoted(word: bytes) -> str:
    """A line of a dictionary of libFuzzer."""
    return '"' + "".join(f"\\x{byte:02x}" for byte in word) + '"\n'


def _ended(target: "FuzzTarget", path: Path) -> Any:
    """The finding of an input that ended the process: it took too long or too much memory."""
    from stowplan.lab.fuzz.targets.mutation import IN_TIME, TargetFinding

    kind = path.name.partition("-")[0]
    return TargetFinding(target.name, IN_TIME, f"the process ended: {kind}", kind, path.read_bytes())


def _main() -> None:
    """The process: `guided.py TARGET FOLDER-FOR-FINDINGS CORPUS OPTIONS-OF-LIBFUZZER…`."""
    atheris: Any = importlib.import_module("atheris")
    name, folder, *options = sys.argv[1:]
    with atheris.instrument_imports(include=["stowplan"]):
        for module in _INSTRUMENTED:
            importlib.import_module(module)
    from stowplan.lab.fuzz.targets import TARGETS
    from stowplan.lab.fuzz.targets.mutation import tried

    target, seen = TARGETS[name], set[tuple[str, str]]()

    def feed(data: bytes) -> None:
        _, finding = tried(target, data)
        if finding is not None and (finding.rule, finding.place) not in seen:
            seen.add((finding.rule, finding.place))
            Path(folder, f"{len(seen)}").write_bytes(data)

    atheris.Setup([sys.argv[0], *options], feed)
    atheris.Fuzz()


if __name__ == "__main__":
    _main()
