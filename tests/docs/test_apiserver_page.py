"""docs/apiserver.md: its kubectl commands do what the page says."""

import subprocess
from pathlib import Path

from docs.pages import ROOT, blocks
from localcluster.apiserver.served import serving
from waiting import PATIENCE

PAGE = ROOT / "docs" / "apiserver.md"


def test_an_account_gets_a_role_and_a_token(tmp_path: Path) -> None:
    [block] = [block for block in blocks(PAGE) if "kubectl create token" in block.text]
    with serving(plain=False) as served:
        config = tmp_path / "kubeconfig"
        config.write_text(served.server.kubeconfig())
        environment = {
            "KUBECONFIG": str(config),
            "HOME": str(tmp_path),
            "PATH": "/usr/bin:/bin:/usr/local/bin",
        }
        outputs = []
        for command in block.text.splitlines():
            done = subprocess.run(
                command.split(),
                env=environment,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                check=False,
            )
            assert done.returncode == 0, (command, done.stderr)
            outputs.append(done.stdout)
        assert outputs[3] == "yes\n"
        assert "pods" in outputs[4]
        pods = "/api/v1/namespaces/default/pods"
        token = outputs[5].strip()
        assert served.ask("GET", pods, Authorization=f"Bearer {token}").code == 200
        assert served.ask("DELETE", pods, Authorization=f"Bearer {token}").code == 403
