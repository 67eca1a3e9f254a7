"""A manifest of every kind goes through kubectl: applied, applied again, shown, approved, deleted."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from localcluster.apiserver.served import Served, serving
from stowplan.api.catalogue import BUILT_IN, Catalogue
from stowplan.localcluster.controllers.actors import STORED_ONLY

MANIFESTS = Path(__file__).with_name("kinds.yaml")
DOCUMENTS = list(yaml.safe_load_all(MANIFESTS.read_text("utf-8")))
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def api() -> Iterator[Served]:
    with serving(plain=False, stored_only=STORED_ONLY) as server:
        yield server


@pytest.fixture(scope="module")
def kubectl(api: Served, tmp_path_factory: pytest.TempPathFactory) -> Run:
    home = tmp_path_factory.mktemp("home")
    config = home / "kubeconfig"
    config.write_text(api.server.kubeconfig())
    environment = {**os.environ, "KUBECONFIG": str(config), "HOME": str(home)}

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run(
            ["kubectl", *words], env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    return run


def test_every_kind_that_can_be_written_has_a_manifest() -> None:
    found = {(document["apiVersion"], document["kind"]) for document in DOCUMENTS}
    wanted = {(each.api_version, each.kind) for each in BUILT_IN if "create" in each.verbs}
    assert found == wanted


def test_they_are_applied_and_what_is_only_stored_warns(kubectl: Run) -> None:
    done = kubectl("apply", "-f", str(MANIFESTS))
    assert done.stdout.count(" created") == len(DOCUMENTS)
    told = [line.split("nothing acts on ")[1] for line in done.stderr.splitlines() if "stored only" in line]
    assert sorted(told) == sorted(f"{resource.kind} here" for resource in STORED_ONLY)


def test_a_diff_of_what_was_applied_is_empty(kubectl: Run) -> None:
    assert kubectl("diff", "-f", str(MANIFESTS)).stdout == ""


def test_they_can_be_applied_again(kubectl: Run) -> None:
    """Where a list is replaced as a whole and its elements have defaults, kubectl sends it every time."""
    done = kubectl("apply", "-f", str(MANIFESTS))
    assert done.stdout.count(" unchanged") + done.stdout.count(" configured") == len(DOCUMENTS)
    assert done.stdout.count(" unchanged") > len(DOCUMENTS) * 0.7


def test_server_side_apply_takes_them_over(kubectl: Run) -> None:
    done = kubectl("apply", "--server-side", "--force-conflicts", "-f", str(MANIFESTS))
    assert done.stdout.count(" serverside-applied") == len(DOCUMENTS)
    assert "failed to re-apply" not in done.stderr


def test_they_are_shown_with_the_columns_of_their_kinds(kubectl: Run) -> None:
    shown = {
        "hpa/web": ["web", "Deployment/web", "memory: <unknown>/500Mi", "2", "10", "0"],
        "ingress/web": ["web", "nginx", "shop.example.com", "80, 443"],
        "networkpolicy/db": ["db", "app=db"],
        "runtimeclass/gvisor": ["gvisor", "runsc"],
        "csidriver/csi.example.com": ["csi.example.com", "true", "true", "false", "<unset>", "false"],
        "validatingadmissionpolicy/replicas.example.com": ["replicas.example.com", "1", "<unset>"],
        "flowschema/robots": ["robots", "robots", "500", "<none>"],
        "prioritylevelconfiguration/robots": ["robots", "Limited", "5", "16", "8", "50"],
        "apiservice/v1beta1.external.example.com": ["v1beta1.external.example.com", "shop/adapter"],
        "ipaddress/10.96.200.1": ["10.96.200.1", "services/shop/web"],
        "resourceclaim/gpu": ["gpu", "pending"],
        "podgroup/training-workers": ["training-workers", "Gang", "<none>", "Pending"],
        "endpoints/outside": ["outside", "192.0.2.10:5432"],
        "statefulset/db": ["db", "0/1"],
    }
    for name, cells in shown.items():
        _, row = kubectl("get", "-n", "shop", name).stdout.splitlines()
        found = [cell.strip() for cell in row.split("  ") if cell.strip()]
        assert found[: len(cells)] == cells, name


def test_a_certificate_request_says_who_made_it_and_can_be_approved(kubectl: Run, api: Served) -> None:
    kubectl("certificate", "approve", "jane")
    found = api.ask("GET", "/apis/certificates.k8s.io/v1/certificatesigningrequests/jane").body
    assert "system:masters" in found["spec"]["groups"]
    assert [each["type"] for each in found["status"]["conditions"]] == ["Approved"]
    assert "Approved" in kubectl("get", "csr", "jane").stdout


def test_every_kind_is_explained_watched_and_deleted(kubectl: Run, api: Served) -> None:
    for document in DOCUMENTS:
        resource = Catalogue().of_kind(document["apiVersion"], document["kind"])
        assert resource is not None
        path = f"{resource.prefix}/{resource.plural}"
        with closing(api.watch(f"{path}?watch=true")) as events:
            first = next(events)
        assert (first["type"], first["object"]["kind"]) == ("ADDED", resource.kind)
    assert "FIELDS" in kubectl("explain", "flowschema.spec.rules").stdout
    done = kubectl("delete", "-f", str(MANIFESTS), "--wait=false")
    assert done.stdout.count(" deleted") == len(DOCUMENTS)
