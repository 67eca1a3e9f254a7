"""Try an image: what is in it, and `stowplan run` as its user against the embedded API server.

    python tests/deploy/image_trial.py dist/image

It is unpacked by umoci if that is installed. The program runs in a chroot, so this needs root; nothing in it
belongs to the user that it runs as, but for /dev/shm.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from client.http.served_stores import serving
from stowplan.api.catalogue import NODES, PODS
from stowplan.localcluster.store import Store

PATIENCE = 120.0
PROGRAMS = ("bin", "sbin", "usr/bin", "usr/sbin", "opt/stowplan/bin")
SHELLS = ("sh", "bash", "dash", "apt", "dpkg", "perl", "busybox")
FLAGS = ("--secure-port=0",)


def blob(image: Path, descriptor: Any) -> Path:
    digest: str = descriptor["digest"]
    return image / "blobs" / "sha256" / digest.removeprefix("sha256:")


def read(image: Path) -> tuple[Any, Any]:
    """Manifest and configuration."""
    (described,) = json.loads((image / "index.json").read_text())["manifests"]
    manifest = json.loads(blob(image, described).read_text())
    return manifest, json.loads(blob(image, manifest["config"]).read_text())


def unpack(image: Path, manifest: Any, folder: Path) -> Path:
    """The root of its files."""
    if shutil.which("umoci"):
        (described,) = json.loads((image / "index.json").read_text())["manifests"]
        tag = described["annotations"]["org.opencontainers.image.ref.name"]
        command = ["umoci", "unpack", "--image", f"{image}:{tag}", str(folder / "bundle")]
        subprocess.run(command, check=True)
        return folder / "bundle" / "rootfs"
    root = folder / "rootfs"
    for layer in manifest["layers"]:
        with tarfile.open(blob(image, layer)) as tar:
            # With the modes that it has, as a container runtime does it.
            tar.extractall(root, filter="fully_trusted")
    return root


def licensed(root: Path, component: Any) -> bool:
    """True if the licence of a component is in the image, or named in its bill of materials."""
    if component["purl"].startswith("pkg:pypi"):
        return bool(component.get("licenses"))
    return bool((root / "usr/share/doc" / component["name"] / "copyright").exists())


def others_may_write(path: Path) -> bool:
    return not path.is_symlink() and bool(path.stat().st_mode & 0o022)


def look(root: Path, config: Any) -> str:
    """Check what is in it; a line that says so."""
    assert config["config"]["User"] == "65532:65532"
    assert config["config"]["Entrypoint"] == ["stowplan", "run"]
    programs = {path.name for folder in PROGRAMS for path in (root / folder).glob("*")}
    assert not programs.intersection(SHELLS), programs
    assert [path for path in root.rglob("*") if others_may_write(path)] == [root / "tmp"]
    materials = json.loads((root / "usr/share/sbom/stowplan.cdx.json").read_text())
    components = materials["components"]
    assert {one["purl"].split("/")[0] for one in components} == {"pkg:deb", "pkg:pypi"}
    assert "stowplan" in {one["name"] for one in components}
    unlicensed = [one["name"] for one in components if not licensed(root, one)]
    assert not unlicensed, unlicensed
    return f"{len(components)} components with licences, programs: {', '.join(sorted(programs))}"


def fill(store: Store) -> None:
    room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    store.create(NODES, {"metadata": {"name": "n"}, "status": {"capacity": room, "allocatable": room}})
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    for name in ("a", "b"):
        spec = {"containers": [container], "schedulerName": "default-scheduler"}
        store.create(PODS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})


async def schedule(root: Path, config: Any, folder: Path) -> str:
    """Run it in its root until it has bound pods; a line that says how long that took."""
    memory = root / "dev" / "shm"
    memory.mkdir(parents=True)
    os.chown(memory, 65532, 65532)
    async with serving(folder) as (store, _, kubeconfig):
        fill(store)
        inside = root / "etc" / "kubeconfig"
        shutil.copy(kubeconfig, inside)
        inside.chmod(0o644)
        chroot = shutil.which("chroot", path="/usr/sbin:/usr/bin:/sbin:/bin") or "chroot"
        command = [chroot, "--userspec=65532:65532", str(root), "/opt/stowplan/bin/stowplan", "run"]
        environment = dict(each.split("=", 1) for each in config["config"]["Env"])
        began = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            *command, "--kubeconfig=/etc/kubeconfig", *FLAGS, env=environment, stderr=asyncio.subprocess.PIPE
        )
        try:
            while not all(store.get(PODS, "default", name)["spec"].get("nodeName") for name in ("a", "b")):
                assert process.returncode is None, (await process.communicate())[1].decode()
                assert time.monotonic() - began < PATIENCE
                await asyncio.sleep(0.1)
            took = time.monotonic() - began
            process.terminate()
            _, log = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
    assert process.returncode == 0, log.decode()
    return f"stowplan run bound its first pods {took:.1f} s after its start, and ended with 0"


def main() -> None:
    image = Path(sys.argv[1])
    manifest, config = read(image)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        root = unpack(image, manifest, folder)
        print(look(root, config))
        print(asyncio.run(schedule(root, config, folder)))


if __name__ == "__main__":
    main()
