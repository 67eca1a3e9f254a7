"""The file that tells kubectl and other clients where the server is and how to get in."""

import base64
import os
import tempfile
from pathlib import Path
from typing import Any, Final

import yaml

_NAME: Final = "stowplan"


def kubeconfig(url: str, certificate: bytes | None, token: str | None) -> str:
    """The text of a kubeconfig for one server."""
    cluster: dict[str, Any] = {"server": url}
    if certificate is not None:
        cluster["certificate-authority-data"] = base64.b64encode(certificate).decode()
    user = {} if token is None else {"token": token}
    data = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": _NAME, "cluster": cluster}],
        "users": [{"name": _NAME, "user": user}],
        "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": _NAME, "namespace": "default"}}],
        "current-context": _NAME,
    }
    text: str = yaml.safe_dump(data, sort_keys=False)
    return text


def write_kubeconfig(path: Path, text: str) -> None:
    """Write it so that only its owner can read it."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    new.replace(path)


def kubeconfig_place(wanted: Path | None) -> Path:
    """Where a kubeconfig goes: where it is wanted, or a file of its own in the temporary folder."""
    if wanted is not None:
        return wanted.absolute()
    with tempfile.NamedTemporaryFile(prefix="stowplan-", suffix=".kubeconfig", delete=False) as file:
        return Path(file.name)
