"""The page in a real browser, on a running cluster: every place is opened and used as a user would.

Screenshots are written to build/screenshots.
"""

import base64
import json
import re
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from explain.samples import HOSTILE as HOSTILE_NAME
from explain.samples import everything
from explain.web.browsing import SCREENSHOTS, kubectl, shot
from localcluster.up.clusters import Up, up
from stowplan.explain.document.past import AttentionDocument, MomentDocument, TrendColumns
from stowplan.explain.report import page as report_page

LATER = """
apiVersion: v1
kind: Pod
metadata: {name: later, namespace: default}
spec:
  schedulingGates: [{name: example.com/later}]
  containers: [{name: main, image: app}]
"""


URGENT = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: urgent}
value: 1000
---
apiVersion: v1
kind: Pod
metadata: {name: urgent, namespace: default}
spec:
  priorityClassName: urgent
  containers: [{name: main, image: app, resources: {requests: {cpu: "6"}}}]
"""


def test_the_cluster_is_shown_as_tiles_and_as_numbers(page: Page, go: Callable[[str], None]) -> None:
    go("cluster")
    expect(page.locator("#heading")).to_contain_text("3 nodes")
    page.locator("#resource").select_option("memory")
    expect(page.locator("#heading")).to_contain_text("memory requested")
    page.locator("summary").click()
    expect(page.locator("details table tbody tr")).to_have_count(3)
    page.locator("#tiles").hover(position={"x": 30, "y": 60})
    expect(page.locator("#tip")).to_contain_text("node-")
    shot(page, "cluster")
    page.locator("#tiles").click(position={"x": 30, "y": 60})
    expect(page.locator("aside h1")).to_contain_text("node-")
    expect(page.locator("aside")).to_contain_text("Could still take")
    shot(page, "node")
    page.keyboard.press("Escape")
    expect(page.locator("aside")).to_be_hidden()


def test_causes_open_in_place_with_what_helps_and_their_pods(page: Page, go: Callable[[str], None]) -> None:
    go("pending")
    expect(page.locator("main h1")).to_have_text("3 pods wait on 2 causes")
    shot(page, "pending")
    first = page.locator(".causes .line").first
    first.click()
    expect(first).to_have_attribute("aria-expanded", "true")
    cause = page.locator(".causes .cause").first
    expect(cause.get_by_label("Changes that would help")).to_contain_text("one more node like")
    expect(cause.locator(".pods li")).to_have_count(2)
    expect(cause.locator(".pods")).to_contain_text("deployment/cache")
    shot(page, "cause")
    page.locator("#filter").fill("quota")
    expect(page.locator(".causes .line")).to_have_count(1)
    expect(page.locator(".causes .line")).to_contain_text("default/gated")
    assert "filter=quota" in page.url
    page.locator("#filter").fill("owner of nothing")
    expect(page.locator("main")).to_contain_text("No cause matches the filter.")
    page.locator("#filter").fill("deployment/cache")
    page.locator(".causes .pods button").first.click()
    aside = page.locator("aside")
    expect(aside).to_contain_text("default/cache-")
    expect(aside.locator(".funnel").first).to_contain_text("anti-affinity")
    expect(aside.get_by_label("Changes that would help")).to_contain_text("one more node like")
    expect(aside).to_contain_text("Wakes it")
    expect(aside.get_by_role("img", name=re.compile("attempt.* in "))).to_be_visible()
    expect(aside.get_by_role("table", name="What happened")).to_contain_text("unschedulable: ")
    shot(page, "pod")
    aside.get_by_text("Raw JSON").click()
    expect(aside.locator("pre")).to_contain_text('"nearMisses"')
    page.route("**/map", _late)
    aside.get_by_text("Show on the map").click()
    expect(page.locator(".legend")).to_contain_text("3 InterPodAffinity")
    shot(page, "map")


def _with_command(route: Route) -> None:
    """The document of a pod with a command for each change: one more node has none."""
    answer = route.fetch()
    document = answer.json()
    document["changes"] = [{**one, "command": "kubectl uncordon n-0"} for one in document["changes"]]
    route.fulfill(response=answer, json=document)


def test_a_command_is_copied(page: Page, go: Callable[[str], None]) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.route("**/stowplan/v1/pods/default/cache-*", _with_command)
    go("pending")
    page.locator(".causes .line", has_text="cache").click()
    page.locator(".causes .pods button").first.click()
    offered = page.locator("aside .command").first
    text = offered.locator("code").inner_text()
    assert text.startswith("kubectl ")
    offered.get_by_role("button").click()
    expect(offered.get_by_role("button")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == text


def test_a_pod_shows_its_owner_events_and_yaml_when_asked(page: Page, go: Callable[[str], None]) -> None:
    go("pending~pod/default/gated")
    page.locator("aside").get_by_text("Owner, requests, events, YAML").click()
    expect(page.locator("aside pre").first).to_contain_text("- name: example.com/quota")
    go("cluster~node/node-0")
    page.locator("aside").get_by_text("Owner, requests, events, YAML").click()
    expect(page.locator("aside pre").first).to_contain_text("kind: Node")


def test_the_first_view_says_what_is_wrong_and_leads_there(
    cluster: Up, page: Page, go: Callable[[str], None]
) -> None:
    kubectl(cluster, "cordon", "node-2")
    go("cluster")
    strip = page.get_by_label("What needs attention")
    expect(strip).to_contain_text("pods wait")
    expect(strip).to_contain_text("scheduling gate example.com/quota")
    expect(strip).to_contain_text("1 node cordoned")
    expect(page.locator(".legend")).to_contain_text("hatched: cordoned")
    shot(page, "attention")
    strip.get_by_role("button", name="node-2").click()
    expect(page.locator("aside h1")).to_have_text("node-2")
    expect(page.locator("aside")).to_contain_text("NodeUnschedulable: ")
    strip.get_by_text("scheduling gate example.com/quota").click()
    expect(page.locator(".causes li.open")).to_contain_text("default/gated")
    kubectl(cluster, "uncordon", "node-2")


def test_the_map_is_shown_as_it_was(page: Page, go: Callable[[str], None]) -> None:
    """With moments that the server would remember after half an hour."""
    times = [f"2026-01-31T12:{minute:02}:00Z" for minute in range(30)]
    trend = TrendColumns(tuple(times), tuple(range(30)), (0.5,) * 30)
    figures = AttentionDocument(waiting=29, oldest=times[0], trend=trend)
    then = MomentDocument(
        time=times[3],
        names=("node-0", "node-gone"),
        fills={"cpu": [0.25, -1], "pods": [0.1, 1]},
        unschedulable=[1, 0],
        ready=[1, 1],
        lanes={"active": 0},
        changes=("1 node gone", "pending pods: 3, now 29"),
    )
    for path, document in (("attention", figures), (f"moments/{times[3].replace(':', '%3A')}", then)):
        page.route(f"**/v1/{path}", partial(_answered, document.document()))
    try:
        go(f"cluster?by=&fill=cpu&at={times[3]}")
        expect(page.locator(".past")).to_contain_text("1 node gone; pending pods: 3, now 29")
        expect(page.locator("#heading")).to_have_text("2 nodes then")
        expect(page.locator(".legend")).to_contain_text("outline: has no cpu")
        shot(page, "then")
        page.get_by_role("button", name="Back to now").click()
        expect(page.locator("#heading")).to_contain_text("3 nodes · ")
        assert "at=" not in page.url
        page.get_by_label("Moment").fill("3")
        expect(page.locator("#heading")).to_have_text("2 nodes then")
        assert "at=2026-01-31" in page.url
        # What has changed since that moment: the other one becomes the moment that is shown.
        page.get_by_role("button", name="Compare with this").click()
        assert "from=2026-01-31" in page.url
        page.get_by_label("Moment").fill("30")
        expect(page.locator(".past")).to_contain_text("to now: 1 node gone; pending pods: 3, now 29")
        expect(page.locator(".legend")).to_contain_text("more cpu requested")
        expect(page.locator(".legend")).to_contain_text("new node")
        shot(page, "compared")
        page.get_by_role("button", name="Stop comparing").click()
        expect(page.locator(".legend")).to_contain_text("below 80 %")
    finally:
        page.unroute_all()


def _answered(document: dict[str, Any], route: Route) -> None:
    route.fulfill(body=json.dumps(document), content_type="application/json")


def _late(route: Route) -> None:
    """An answer that comes after the page has begun to say that it loads."""
    sleep(0.6)
    route.continue_()


def test_a_link_to_a_pod_can_be_sent(page: Page, go: Callable[[str], None]) -> None:
    go("pending~pod/default/gated")
    expect(page.locator("aside h1")).to_have_text("default/gated")
    expect(page.locator("aside")).to_contain_text("SchedulingGates")
    go("pending~pod/default/nobody")
    expect(page.locator("aside")).to_contain_text('Not found: pods "nobody" not found')


def test_the_queue_has_a_lane_for_every_state(page: Page, go: Callable[[str], None]) -> None:
    go("queue")
    expect(page.locator(".lane")).to_have_count(6)
    expect(page.get_by_label("gated")).to_contain_text("default/gated")
    expect(page.get_by_label("unschedulable").locator(".dots i")).to_have_count(2)
    expect(page.get_by_label("unschedulable").locator(".flow")).to_contain_text("in ", timeout=20_000)
    shot(page, "queue")


def test_decisions_are_listed_with_points_and_time(page: Page, go: Callable[[str], None]) -> None:
    go("decisions")
    expect(page.locator("main")).to_contain_text("pods a second")
    expect(page.locator(".chart figcaption")).to_have_count(3, timeout=20_000)
    expect(page.locator(".chart figcaption").nth(0)).to_contain_text("bound")
    expect(page.locator(".chart figcaption").nth(1)).to_contain_text("p99")
    expect(page.locator(".chart svg text").first).to_be_visible()
    bound = page.locator("tbody tr", has_text="bound").first
    expect(bound).to_contain_text("ms")
    shot(page, "decisions")
    bound.click()
    expect(page.locator("aside")).to_contain_text("Points of the best nodes, by plugin")
    shot(page, "placed-pod")


def test_search_is_done_by_keyboard(page: Page, go: Callable[[str], None]) -> None:
    go("cluster")
    page.keyboard.press("/")
    page.keyboard.type("app=cache")
    expect(page.locator("#search-results li").first).to_contain_text("default/cache-")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("aside h1")).to_contain_text("default/cache-")
    page.keyboard.press("/")
    page.keyboard.type("nothing-like-this")
    expect(page.locator("#search-results")).to_contain_text("Nothing found.")
    page.keyboard.press("Escape")


def test_lines_and_places_are_reached_by_keyboard(page: Page, go: Callable[[str], None]) -> None:
    go("cluster")
    expect(page.locator("#heading")).to_contain_text("3 nodes")
    page.keyboard.press("2")
    expect(page.locator(".causes .line").first).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.locator(".causes .line").nth(1)).to_be_focused()
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    expect(page.locator(".causes .cause")).to_contain_text("default/cache-")
    page.keyboard.press("?")
    expect(page.get_by_label("Keys").locator("kbd").first).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_preemption_says_why_this_node_and_not_another(
    cluster: Up, page: Page, go: Callable[[str], None]
) -> None:
    kubectl(cluster, "create", "-f", "-", stdin=URGENT)
    go("decisions")
    evicting = page.locator("tbody tr", has_text="default/urgent").first
    expect(evicting).to_be_visible(timeout=20_000)
    page.get_by_label("only evictions").check()
    expect(page.locator("main tbody tr")).to_have_count(1)
    expect(page.locator("main tbody tr")).to_contain_text("evicts default/")
    assert "only=evictions" in page.url
    go("decisions~pod/default/urgent")
    evicted = page.get_by_label("Evicted for it")
    expect(evicted).to_contain_text(re.compile(r"evicted default/\S+.* from node-\d for it"))
    expect(evicted.locator(".funnel")).to_contain_text(re.compile(r"^3nodes−[12].*= 1node-\d"))
    shot(page, "preemptor")
    evicted.locator("button").first.click()
    expect(page.get_by_label("Evicted", exact=True)).to_contain_text("evicted for default/urgent")
    shot(page, "victim")
    kubectl(cluster, "delete", "pod", "urgent", "--wait=false")


def test_it_is_readable_in_the_dark(page: Page, go: Callable[[str], None]) -> None:
    page.emulate_media(color_scheme="dark")
    go("cluster")
    expect(page.locator("#heading")).to_contain_text("3 nodes")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"
    shot(page, "cluster-dark")
    page.emulate_media(color_scheme="light")


GANGS = Path(__file__).parents[3] / "examples" / "gangs"


@pytest.fixture(scope="module")
def gangs(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[tuple[Up, Page]]:
    """A cluster with a gang that has its places and one that waits, as in docs/gangs.md, and its page."""
    folder = tmp_path_factory.mktemp("gangs")
    at_once = folder / "pretend.yaml"
    at_once.write_text("pods: [{startSeconds: 0, stopSeconds: 0}]")
    shapes, busy = str(GANGS / "nodes.yaml"), str(GANGS / "busy.yaml")
    with up(folder, "--gangs", "--shapes", shapes, "--pretend", str(at_once), "--load", busy) as running:
        said = [running.line() for _ in range(2)]
        [address] = re.findall(r"http://127\.0\.0\.1:\d+/stowplan/\?token=\S+", "".join(said))
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        opened = context.new_page()
        problems: list[str] = []
        opened.on("pageerror", lambda error: problems.append(str(error)))
        opened.goto(address)
        opened.goto(f"{opened.url.split('#')[0]}#/groups")
        expect(opened.locator("main")).to_contain_text("No group of pods")
        kubectl(running, "rollout", "status", "daemonset/inference")
        kubectl(running, "rollout", "status", "deployment/web")
        kubectl(running, "apply", "-f", str(GANGS / "sweep.yaml"))
        expect(opened.locator("main h1")).to_have_text("1 group: 1 placed")
        kubectl(running, "apply", "-f", str(GANGS / "training.yaml"))
        yield running, opened
        assert problems == []
        context.close()


def test_a_group_that_waits_shows_how_far_it_gets_in_each_rack(gangs: tuple[Up, Page]) -> None:
    _, page = gangs
    expect(page.locator("main h1")).to_have_text("2 groups: 1 waiting, 1 placed")
    waiting = page.locator("main tr.link").first
    expect(waiting).to_contain_text("24 of 32 needed members would fit in rack-a")
    shot(page, "groups")
    waiting.click()
    aside = page.locator("aside")
    expect(aside.locator("h1")).to_have_text("default/training")
    expect(aside.locator(".bars").first).to_contain_text("rack-a24 of 32")
    expect(aside.locator(".bars").first).to_contain_text("rack-b0 of 32")
    expect(page.get_by_label("What stops it")).to_contain_text("NodeResourcesFit: Insufficient cpu")
    expect(aside).to_contain_text("minCount 24 instead of 32")
    expect(page.get_by_label("Preemption")).to_contain_text("Preemption does not help")
    shot(page, "group")
    aside.get_by_text("Show on the map").click()
    expect(page.locator("#heading")).to_contain_text("64 nodes · 24 of 32 needed members would fit in rack-a")
    page.locator("#tiles").hover(position={"x": 20, "y": 60})
    expect(page.locator("#tip")).to_contain_text("24 of 32")
    shot(page, "group-map")


def test_a_group_and_its_members_lead_to_each_other(gangs: tuple[Up, Page]) -> None:
    _, page = gangs
    page.goto(f"{page.url.split('#')[0]}#/groups~podgroup/default/training")
    aside = page.locator("aside")
    aside.get_by_text("Members (32)").click()
    aside.locator("details tr.link").first.click()
    expect(aside.locator("h1")).to_contain_text("default/training-")
    expect(aside).to_contain_text("is pending: PodGroup default/training is waiting")
    aside.locator(".group button").click()
    expect(aside.locator("h1")).to_have_text("default/training")


def test_a_group_is_one_cause_one_entry_of_the_queue_and_found_by_search(gangs: tuple[Up, Page]) -> None:
    _, page = gangs
    page.goto(f"{page.url.split('#')[0]}#/pending")
    expect(page.locator("main h1")).to_have_text("32 pods wait on 1 cause")
    page.locator(".causes .line").click()
    page.get_by_role("button", name="Explain the group").click()
    expect(page.locator("aside h1")).to_have_text("default/training")
    page.keyboard.press("Escape")
    page.goto(f"{page.url.split('#')[0]}#/queue")
    expect(page.locator(".lane li", has_text="default/training")).to_contain_text("group of 32 pods")
    page.keyboard.press("/")
    page.keyboard.type("train")
    expect(page.locator("#search-results li").first).to_contain_text("group, waiting")
    page.keyboard.press("Enter")
    expect(page.locator("aside h1")).to_have_text("default/training")


def test_details_have_the_whole_of_a_narrow_window(gangs: tuple[Up, Page]) -> None:
    _, page = gangs
    page.set_viewport_size({"width": 600, "height": 900})
    page.goto(f"{page.url.split('#')[0]}#/groups~podgroup/default/training")
    expect(page.locator("aside")).to_contain_text("What stops it in rack-a")
    assert page.evaluate("document.querySelector('aside').clientWidth") == 600
    shot(page, "group-narrow")
    page.keyboard.press("Escape")
    expect(page.locator("main h1")).to_be_visible()
    page.set_viewport_size({"width": 1440, "height": 900})


def test_details_are_kept_as_a_file_that_opens_from_disk(
    page: Page, go: Callable[[str], None], browser: Browser, tmp_path: Path
) -> None:
    go("pending~pod/default/gated")
    expect(page.locator("aside .headline")).to_contain_text("example.com/quota")
    page.locator("#share").click()
    dialog = page.get_by_role("dialog", name="Share")
    expect(dialog).to_contain_text("This page is for you alone")
    with page.expect_download() as saved:
        dialog.get_by_role("button", name="Details as HTML").click()
    file = tmp_path / saved.value.suggested_filename
    saved.value.save_as(file)
    assert file.name == "default-gated.html"
    dialog.get_by_role("button", name="Close").click()
    opened = browser.new_context().new_page()
    asked: list[str] = []
    said: list[str] = []
    opened.on("request", lambda request: asked.append(request.url))
    opened.on("console", lambda message: said.append(message.text))
    opened.goto(file.as_uri())
    expect(opened.locator("h1")).to_have_text("default/gated")
    expect(opened.locator(".headline")).to_contain_text("example.com/quota")
    opened.get_by_text("Raw JSON").click()
    expect(opened.locator("pre")).to_contain_text('"state": "pending"')
    assert opened.locator("button, a, script, input").count() == 0
    assert (asked, said) == ([file.as_uri()], [])
    opened.close()


@pytest.mark.parametrize("view", ["cluster", "pending", "decisions"])
def test_a_view_is_kept_as_a_picture(
    page: Page, go: Callable[[str], None], tmp_path: Path, view: str
) -> None:
    go(view)
    expect(page.locator("main > .inner > *").first).to_be_attached()
    expect(page.locator("main")).not_to_contain_text("Loading")
    page.locator("#share").click()
    dialog = page.get_by_role("dialog", name="Share")
    with page.expect_download() as saved:
        dialog.get_by_role("button", name="View as PNG").click()
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    file = SCREENSHOTS / f"saved-{view}.png"
    saved.value.save_as(file)
    dialog.get_by_role("button", name="Close").click()
    # Words and colours of the page are in it: a picture that could not be drawn is of one colour.
    encoded = base64.b64encode(file.read_bytes()).decode()
    width, height, colours = page.evaluate(COLOURS, f"data:image/png;base64,{encoded}")
    assert (width > 800, height > 100, colours > 20) == (True, True, True), (width, height, colours)


COLOURS = """async (source) => {
  const image = new Image();
  image.src = source;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.width, image.height];
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  const points = new Uint32Array(context.getImageData(0, 0, image.width, image.height).data.buffer);
  return [image.width, image.height, new Set(points).size];
}"""


def test_a_report_opens_from_disk_and_asks_nobody(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(report_page.render(everything()), encoding="utf-8")
    opened = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
    said: list[str] = []
    asked: list[str] = []
    opened.on("console", lambda message: said.append(message.text))
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.on("dialog", lambda dialog: said.append(dialog.message))
    opened.on("request", lambda request: asked.append(request.url))
    opened.goto(file.as_uri())
    expect(opened.locator("h1")).to_have_text(f"What if {HOSTILE_NAME}")
    expect(opened.locator("main")).to_contain_text(f"NodeAffinity: {HOSTILE_NAME}")
    expect(opened.locator(".chart svg path.line")).to_have_count(2)
    expect(opened.locator("canvas")).to_have_count(2)
    opened.locator(".chart svg").hover(position={"x": 60, "y": 60})
    expect(opened.locator(".chart figcaption")).to_contain_text("running 100 pods")
    opened.get_by_text("The data as JSON").click()
    expect(opened.locator("pre")).to_contain_text('"moved": 12')
    shot(opened, "report")
    assert said == []
    assert asked == [file.as_uri()]


def test_a_token_is_good_once_and_nothing_is_told_without_a_session(page: Page, browser: Browser) -> None:
    base = page.url.split("/stowplan/")[0]
    stranger = browser.new_context().new_page()
    for path in (
        "/stowplan/",
        "/stowplan/app.js",
        "/stowplan/v1",
        "/stowplan/v1/pods",
        "/stowplan/v1/stream",
    ):
        response = stranger.goto(base + path)
        assert response is not None
        assert response.status == 401, path
    response = stranger.goto(f"{base}/stowplan/?token=wrong")
    assert response is not None
    assert response.status == 401
    policy = page.request.get(f"{base}/stowplan/").headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self';")


def test_choices_are_in_the_address_and_come_back(page: Page, go: Callable[[str], None]) -> None:
    go("cluster")
    page.locator("#resource").select_option("memory")
    expect(page.locator("#heading")).to_contain_text("memory requested")
    assert "fill=memory" in page.url
    page.locator("#resource").select_option("cpu")
    page.keyboard.press("Escape")
    page.go_back()
    expect(page.locator("#resource")).to_have_value("memory")
    go("cluster?fill=pods&by=~pod/default/gated")
    expect(page.locator("#resource")).to_have_value("pods")
    expect(page.locator("#key")).to_have_value("")
    expect(page).to_have_title("default/gated · stowplan")
    page.get_by_role("button", name="Close").click()
    expect(page).to_have_title("Cluster · stowplan")


def test_nodes_are_found_by_their_labels(page: Page, go: Callable[[str], None]) -> None:
    go("pending")
    page.keyboard.press("/")
    page.keyboard.type("zone=")
    option = page.locator("#search-results li", has_text="topology.kubernetes.io/zone=").first
    expect(option).to_contain_text("1 node")
    option.click()
    expect(page.locator("#key")).to_have_value("topology.kubernetes.io/zone")


def test_what_is_not_found_can_be_closed_and_j_goes_on_where_it_was(
    page: Page, go: Callable[[str], None]
) -> None:
    go("decisions")
    lines = page.locator("main tr.link")
    expect(lines.nth(3)).to_be_visible()
    for _ in range(3):
        page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator("aside")).to_be_visible()
    page.keyboard.press("Escape")
    expect(lines.nth(2)).to_be_focused()
    page.keyboard.press("j")
    expect(lines.nth(3)).to_be_focused()
    go("decisions~pod/default/nobody")
    expect(page.locator("aside")).to_contain_text("not found")
    page.get_by_role("button", name="Close").click()
    expect(page.locator("aside")).to_be_hidden()


@pytest.mark.parametrize("width", [390, 1024])
def test_narrow_windows_cut_nothing_off(page: Page, go: Callable[[str], None], width: int) -> None:
    try:
        page.set_viewport_size({"width": width, "height": 800})
        for view in ("cluster", "pending", "queue", "decisions", "pending~pod/default/gated"):
            go(view)
            expect(page.locator("#status b")).to_contain_text("waiting")
            expect(page.locator("main > .inner > *").first).to_be_attached()
            shot(page, f"{width}-{view.replace('/', '-')}")
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, view
            # In one step: the page replaces the element every second.
            right = page.evaluate("document.querySelector('#status b').getBoundingClientRect().right")
            assert right <= width, view
    finally:
        page.set_viewport_size({"width": 1440, "height": 900})


def test_an_open_pod_is_followed_until_it_runs(cluster: Up, page: Page, go: Callable[[str], None]) -> None:
    kubectl(cluster, "create", "-f", "-", stdin=LATER)
    go("pending~pod/default/later")
    expect(page.locator("aside .headline")).to_contain_text("example.com/later")
    page.locator("aside").get_by_text("Raw JSON").click()
    patch = '[{"op": "remove", "path": "/spec/schedulingGates"}]'
    kubectl(cluster, "patch", "pod", "later", "--type=json", "-p", patch)
    expect(page.locator("aside .headline")).to_contain_text("default/later is on node-")
    expect(page.locator("aside pre")).to_contain_text('"state": "placed"')
    kubectl(cluster, "delete", "pod", "later")


def test_an_address_that_was_used_says_how_to_get_another(page: Page, browser: Browser) -> None:
    address = page.url.split("#")[0]
    other = browser.new_context()
    fresh = other.new_page()
    fresh.goto(f"{address}?token=used")
    expect(fresh.locator("body")).to_contain_text("stowplan view")
    fresh.goto(address)
    expect(fresh.locator("h1")).to_have_text("Not signed in")
    other.close()


def test_a_server_that_stands_still_is_noticed_and_the_page_goes_on_when_it_does(
    cluster: Up, page: Page, go: Callable[[str], None]
) -> None:
    go("queue")
    expect(page.locator(".lane")).to_have_count(6)
    go("pending")
    expect(page.locator("main h1")).to_contain_text("pods wait")
    cluster.process.send_signal(signal.SIGSTOP)
    try:
        expect(page.locator("#lost")).to_contain_text("No word from the server since")
        expect(page.locator("#age")).to_contain_text("s old")
        expect(page.locator("main h1")).to_contain_text("pods wait")
        go("queue")
        expect(page.locator(".lane")).to_have_count(6)
        go("groups")
        expect(page.locator(".lane")).to_have_count(6)
        shot(page, "frozen")
    finally:
        cluster.process.send_signal(signal.SIGCONT)
    expect(page.locator("#lost")).to_be_hidden()
    expect(page.locator("main h1")).to_have_text("Groups")
    expect(page.locator("#age")).to_be_hidden()


def test_ctrl_c_ends_the_process_while_pages_are_open(tmp_path: Path, browser: Browser, page: Page) -> None:
    with up(tmp_path, "--nodes", "1") as running:
        said = [running.line() for _ in range(2)]
        [address] = re.findall(r"http://127\.0\.0\.1:\d+/stowplan/\?token=\S+", "".join(said))
        context = browser.new_context()
        for _ in range(3):
            opened = context.new_page()
            opened.goto(address)
            expect(opened.locator("#status")).to_contain_text("waiting")
        running.process.send_signal(signal.SIGINT)
        running.process.wait(30)  # the server gives requests 60 s, and streams have no end of their own
        context.close()


def test_a_lost_connection_says_since_when_and_keeps_the_picture(cluster: Up, page: Page) -> None:
    """The last test of the file: the cluster is gone afterwards."""
    page.goto(f"{page.url.split('#')[0]}#/pending")
    expect(page.locator("main h1")).to_contain_text("pods wait")
    cluster.process.kill()
    expect(page.locator("#lost")).to_contain_text("No word from the server since", timeout=20_000)
    expect(page.locator("main h1")).to_contain_text("pods wait")
    shot(page, "lost")
