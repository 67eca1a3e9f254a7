"""docs/policies.md: its commands print what it shows, with real kubectl on a running cluster."""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

from docs.pages import ROOT, shown, write_files
from localcluster.up.clusters import up
from waiting import KUBECTL_PATIENCE, PATIENCE

PAGE = ROOT / "docs" / "policies.md"


def test_each_command_prints_what_is_shown(tmp_path: Path) -> None:
    write_files(PAGE, tmp_path)
    kubectl = shutil.which("kubectl")
    assert kubectl is not None, "kubectl is not installed; `make test` installs it"
    with up(tmp_path, "--nodes", "1") as cluster:
        environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "HOME": str(tmp_path)}

        def printed(command: str) -> str:
            words = [kubectl or "", *shlex.split(command)[1:]]
            done = subprocess.run(
                words,
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=2 * PATIENCE,
                check=False,
            )
            return (done.stderr + done.stdout).strip()

        printed(f"kubectl wait serviceaccount/default --for=create {KUBECTL_PATIENCE}")
        outputs = shown(PAGE)
        assert len(outputs) == 8
        for command, output in outputs.items():
            assert printed(command) == output.strip(), command
