"""Pictures of the page: `make page-shots` writes every view of a cluster of 200 nodes to build/page-shots.

Three sizes of windows, light and dark. They are for people to look at; nothing is compared.
"""

import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml
from playwright.sync_api import Browser, Page, expect, sync_playwright

from localcluster.up.clusters import up
from troubles.corpus import pools

FOLDER: Final = Path(__file__).parents[3] / "build" / "page-shots"
SIZES: Final = {"1440": (1440, 900), "1024": (1024, 768), "390": (390, 844)}
VIEWS: Final = {
    "cluster": "cluster",
    "cluster-gpu": "cluster?by=pool&fill=nvidia.com%2Fgpu",
    "pending": "pending",
    "queue": "queue",
    "groups": "groups",
    "decisions": "decisions",
    "node": "cluster~node/gpu-0",
    "pod-pending": "pending~pod/shop/infer",
    "try": "try?drain=general-3",
    "try-pod": "try?pod=shop%2Finfer",
    "pod-map": "cluster?pod=shop%2Finfer~pod/shop/infer",
}
PATIENCE: Final = 60_000


def _workload(name: str, replicas: int, spec: Mapping[str, object], **requests: str) -> dict[str, object]:
    container = {"name": "main", "image": "app", "resources": {"requests": requests, "limits": requests}}
    template = {"metadata": {"labels": {"app": name}}, "spec": {**spec, "containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template,
        },
    }


def cluster_objects() -> list[dict[str, object]]:
    """A cluster in use, with a pod for each of the usual troubles."""
    gpu = {"nodeSelector": {"pool": "gpu"}, "tolerations": [{"operator": "Exists"}]}
    pod = {"containers": [{"name": "main", "image": "app"}], "nodeSelector": {"pool": "infer"}}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
        _workload("web", 240, {}, cpu="1500m", memory="3Gi"),
        _workload("cache", 30, {}, cpu="500m", memory="12Gi"),
        _workload("train", 14, gpu, **{"cpu": "4", "nvidia.com/gpu": "8"}),
        _workload("huge", 2, {}, cpu="96"),
        _workload("typo", 3, {"nodeSelector": {"pool": "genral"}}, cpu="1"),
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "infer", "namespace": "shop"}, "spec": pod},
    ]


def take(browser: Browser, address: str, folder: Path) -> None:
    """Open every view in windows of each size."""
    folder.mkdir(parents=True, exist_ok=True)
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.goto(address)
    expect(page.locator("#status b")).to_contain_text("waiting", timeout=PATIENCE)
    base = page.url.split("#")[0]
    for name, place in VIEWS.items():
        page.goto(f"{base}#/{place}")
        _settled(page, name)
        for size, (width, height) in SIZES.items():
            page.set_viewport_size({"width": width, "height": height})
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                page.wait_for_timeout(150)  # a frame or two until canvases are painted
                page.screenshot(path=folder / f"{name}-{size}-{scheme}.png")
        page.set_viewport_size({"width": 1440, "height": 900})
    context.close()


def _settled(page: Page, name: str) -> None:
    expect(page.locator("main")).not_to_contain_text("Loading", timeout=PATIENCE)
    if name.startswith(("node", "pod-")):
        expect(page.locator("aside h1")).to_be_visible(timeout=PATIENCE)
    if name == "try":
        expect(page.locator(".answer .headline")).to_be_visible(timeout=PATIENCE)
    if name == "try-pod":
        page.locator(".try-form .primary").click()
        expect(page.locator(".answer .headline")).to_be_visible(timeout=PATIENCE)
    if name == "cluster":
        expect(page.locator(".attention")).not_to_contain_text("finding out", timeout=PATIENCE)
        expect(page.locator(".attention .card").first).to_be_visible(timeout=PATIENCE)


def main() -> int:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        shapes, objects = folder / "shapes.yaml", folder / "objects.yaml"
        sizes = [
            {**{k: v for k, v in one.items() if k not in ("few", "many")}, "count": one["many"]}
            for one in pools()
        ]
        shapes.write_text(yaml.safe_dump(sizes))
        objects.write_text(yaml.safe_dump_all(cluster_objects()))
        with (
            up(folder, "--shapes", str(shapes), "--load", str(objects), "--gangs") as running,
            sync_playwright() as playwright,
        ):
            said = "".join(running.line() for _ in range(2))
            [address] = re.findall(r"http://127\.0\.0\.1:\d+/stowplan/\?token=\S+", said)
            browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
            take(browser, address, FOLDER)
            browser.close()
    print(f"{len(list(FOLDER.glob('*.png')))} pictures in {FOLDER}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
