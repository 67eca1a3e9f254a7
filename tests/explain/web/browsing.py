"""Helpers for tests of the page in a browser: its cluster with a few pods that wait, kubectl, screenshots."""

import subprocess
from pathlib import Path

from playwright.sync_api import Page, expect

from localcluster.up.clusters import Up
from waiting import PATIENCE

expect.set_options(timeout=PATIENCE * 1000)

SCREENSHOTS = Path(__file__).parents[3] / "build" / "screenshots"
HOSTILE = "<img src=x onerror=alert(1)>"

BUSY = f"""
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web, namespace: default}}
spec:
  replicas: 6
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}, annotations: {{note: "{HOSTILE}"}}}}
    spec:
      containers: [{{name: main, image: app, resources: {{requests: {{cpu: "2", memory: 2Gi}}}}}}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: cache, namespace: default}}
spec:
  replicas: 5
  selector: {{matchLabels: {{app: cache}}}}
  template:
    metadata: {{labels: {{app: cache}}}}
    spec:
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - topologyKey: kubernetes.io/hostname
            labelSelector: {{matchLabels: {{app: cache}}}}
      containers: [{{name: main, image: app, resources: {{requests: {{cpu: 100m}}}}}}]
---
apiVersion: v1
kind: Pod
metadata: {{name: gated, namespace: default}}
spec:
  schedulingGates: [{{name: example.com/quota}}]
  containers: [{{name: main, image: app}}]
"""


def kubectl(cluster: Up, *words: str, stdin: str = "") -> None:
    command = ["kubectl", "--kubeconfig", str(cluster.kubeconfig), *words]
    subprocess.run(command, input=stdin, text=True, check=True, capture_output=True, timeout=60)


def shot(page: Page, name: str) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png")
