"""The view that tries pods, changes and another scheduler, in a browser on a running cluster."""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect

from explain.web.browsing import kubectl, shot
from localcluster.up.clusters import Up

Go = Callable[[str], None]


def versions(cluster: Up) -> dict[str, str]:
    """The resource versions of all nodes and pods. Leases and statuses of nodes change by themselves."""
    command = [
        "kubectl",
        "--kubeconfig",
        str(cluster.kubeconfig),
        "get",
        "pods,deployments",
        "-A",
        "-o",
        "json",
    ]
    done = subprocess.run(command, text=True, check=True, capture_output=True, timeout=60)
    found = json.loads(done.stdout)["items"]
    return {one["metadata"]["uid"]: one["metadata"]["resourceVersion"] for one in found}


def test_a_pending_pod_is_edited_and_tried(cluster: Up, page: Page, go: Go) -> None:
    go("pending")
    page.locator(".causes .line", has_text="cache").click()
    page.locator(".causes .pods button").first.click()
    page.locator("aside").get_by_role("link", name="Edit and try").click()
    editor = page.get_by_label("Manifests of pods or workloads")
    expect(editor).to_have_value(re.compile(r"kind: Pod\n(.*\n)*.*podAntiAffinity"))
    text = editor.input_value()
    assert "nodeName" not in text
    assert "kube-api-access" not in text
    before = versions(cluster)
    page.get_by_role("button", name="Try: does it fit?").click()
    answer = page.get_by_label("Answer")
    expect(answer).to_contain_text("0 of 1 replicas")
    expect(answer).to_contain_text("would wait")
    expect(answer.get_by_label("Changes that would help")).to_contain_text("one more node like")
    shot(page, "try-pod")
    # Others of the set keep it away by its label.
    other = text.replace("app: cache", "app: other")
    editor.fill(other.replace("cpu: 100m", "cpu: 7"))
    page.keyboard.press("Control+Enter")
    expect(answer.locator(".headline")).to_contain_text("cpu short on all 3 nodes")
    answer.get_by_role("button", name="Try this change").first.click()
    expect(answer.locator(".headline")).to_contain_text("All 1 replicas of pod/cache-")
    expect(editor).to_have_value(re.compile("cpu: [0-9]+m"))
    editor.fill(other)
    expect(page.get_by_text("The form has changed since this answer.")).to_be_visible()
    page.keyboard.press("Control+Enter")
    expect(answer.locator(".headline")).to_contain_text("All 1 replicas of pod/cache-")
    expect(answer.locator(".legend")).to_contain_text("1 node differs")
    assert versions(cluster) == before, "nothing is written"


def test_a_node_is_drained_on_two_maps(cluster: Up, page: Page, go: Go, tmp_path: Path) -> None:
    go("cluster~node/node-1")
    page.locator("aside").get_by_role("link", name="it were drained").click()
    answer = page.get_by_label("Answer")
    expect(answer.locator(".headline")).to_contain_text("2 pods move")
    expect(answer.locator(".sides canvas")).to_have_count(2)
    expect(answer.locator(".legend")).to_contain_text("3 nodes differ")
    answer.locator("summary").click()
    expect(answer.locator("details tbody tr")).to_have_count(3)
    expect(answer.locator("details tbody")).to_contain_text("node-1 cordoned")
    expect(answer).to_contain_text("Who stays pending, and why")
    expect(answer.locator(".command code")).to_have_text("stowplan whatif --drain node-1")
    answer.locator("canvas").last.hover(position={"x": 30, "y": 60})
    expect(answer.locator(".tip")).to_contain_text("→")
    shot(page, "try-drain")
    with page.expect_download() as kept:
        answer.get_by_role("button", name="Keep as HTML").click()
    file = tmp_path / "kept.html"
    kept.value.save_as(file)
    alone = page.context.new_page()
    alone.goto(file.as_uri())
    expect(alone.locator("h1")).to_have_text("what if: drain")
    expect(alone.locator(".summary")).to_contain_text("2 pods move")
    alone.close()
    link = page.url
    go("queue")
    page.goto(link)
    expect(page.get_by_label("Answer").locator(".headline")).to_contain_text("2 pods move")


def test_changes_are_chosen_by_form_and_mistakes_are_shown_at_their_field(page: Page, go: Go) -> None:
    go("try")
    expect(page.get_by_label("Answer")).to_contain_text("What if node-0 were drained?")
    add = page.get_by_label("Add a change")
    add.select_option("Cordon nodes")
    page.get_by_label("Cordon nodes: nodes").fill("nobody")
    add.select_option("Add nodes of a shape")
    page.get_by_label("Add nodes of a shape: cpu").fill("much")
    page.get_by_role("button", name="Try the changes").click()
    rows = page.locator(".changes > li")
    expect(rows.nth(0).locator(".wrong")).to_have_text("no node nobody")
    page.get_by_label("Cordon nodes: nodes").fill("node-0")
    expect(rows.nth(0).locator(".wrong")).to_be_hidden()
    page.get_by_role("button", name="Try the changes").click()
    expect(rows.nth(1).locator(".wrong")).to_contain_text("cpu")
    page.get_by_label("Add nodes of a shape: cpu").fill("16")
    page.get_by_label("Add nodes of a shape: other resources").fill("nvidia.com/gpu: 8")
    page.get_by_role("button", name="Try the changes").click()
    answer = page.get_by_label("Answer")
    expect(answer.locator(".figures")).to_contain_text("waited, get a node1")
    expect(answer).to_contain_text("after · 4 nodes")
    rows.nth(0).get_by_role("button").click()
    expect(rows).to_have_count(1)
    page.get_by_label("Manifests of pods").fill("kind: Pod\nspec:\n  bad\n   worse: 1\n")
    page.get_by_role("button", name="Try the changes").click()
    expect(page.locator("[data-wrong=manifests]")).to_contain_text("line ")


def test_another_scheduler_is_tried_alone(page: Page, go: Go) -> None:
    go("try")
    page.get_by_text("Another scheduler").click()
    page.get_by_label("strategy of NodeResourcesFit").select_option("MostAllocated")
    page.get_by_role("button", name="Try the scheduler").click()
    answer = page.get_by_label("Answer")
    expect(answer.locator(".headline")).to_contain_text("pods move")
    expect(answer.locator(".command code")).to_contain_text("type: MostAllocated")
    expect(answer.locator(".command code")).to_contain_text("stowplan whatif --new-config new.yaml")
    page.get_by_role("button", name="Sample pod").click()
    page.get_by_role("button", name="Try").click()
    expect(page.locator(".try-form > .wrong")).to_contain_text("tried alone")


def test_the_form_works_on_a_phone_and_by_keyboard(page: Page, go: Go) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    try:
        go("try?copy=node-0")
        answer = page.get_by_label("Answer")
        expect(answer.locator(".headline")).to_contain_text("0 pods move")
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        expect(answer.locator(".headline")).to_be_in_viewport()
        editor = page.get_by_label("Manifests of pods")
        page.locator("summary", has_text="Pods").click()
        editor.focus()
        page.keyboard.type("spec:")
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        page.keyboard.type("x/2 ?")
        expect(editor).to_have_value("spec:\n    x/2 ?")
        assert page.url.split("#")[1].startswith("/try"), "letters are typed, not keys"
        page.keyboard.press("Escape")
        page.keyboard.press("Tab")
        expect(page.get_by_role("button", name="Sample pod")).to_be_focused()
        page.keyboard.press("6")
        expect(page.locator("nav [aria-current]")).to_have_text("Try it")
    finally:
        page.set_viewport_size({"width": 1440, "height": 900})


def test_a_question_can_be_stopped(page: Page, go: Go) -> None:
    go("try")
    page.get_by_label("Add a change").select_option("Add nodes of a shape")
    page.get_by_label("Add nodes of a shape: count").fill("100000")
    page.get_by_role("button", name="Try the changes").click()
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".try-form > .wrong")).to_have_text("Ended.")


def test_nodes_that_are_cordoned_offer_the_opposite(cluster: Up, page: Page, go: Go) -> None:
    kubectl(cluster, "cordon", "node-2")
    go("cluster~node/node-2")
    page.locator("aside").get_by_role("link", name="it were uncordoned").click()
    expect(page.get_by_label("Answer").locator(".command code")).to_have_text(
        "stowplan whatif --uncordon node-2"
    )
    kubectl(cluster, "uncordon", "node-2")
