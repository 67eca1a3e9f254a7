"""Questions by POST over HTTP: who may ask, what is refused before it is read, and what ends an answer."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import yaml
from yarl import URL

from localcluster.auth.test_authorization import binding, role, rule, user
from stowplan.explain.document.tried import TryLimits
from stowplan.explain.web.http import PageServer
from stowplan.explain.web.questions import MOST_BYTES
from stowplan.localcluster.apiserver import Listening
from stowplan.localcluster.kubelets import NodeShape
from stowplan.localcluster.up import ClusterPlan, LocalCluster
from stowplan.simulate.questions import ForkedQuestions

RBAC = "/apis/rbac.authorization.k8s.io/v1"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "main", "image": "app"}]},
}
FIT = {"manifests": POD}
ENDLESS = {"changes": [{"addNodes": [{"name": "x", "count": 100_000}]}], "nodes": True}
"""Takes some seconds."""


class Asking:
    """Requests to the page, signed in, and to the API server, as any user."""

    def __init__(self, cluster: LocalCluster, page: PageServer, session: aiohttp.ClientSession) -> None:
        self.cluster = cluster
        self._page = URL(page.url)
        self._session = session
        config = cluster.server.kubeconfig()
        [account] = (yaml.safe_load(config) if isinstance(config, str | bytes) else config)["users"]
        self._token = account["user"]["token"]

    async def sign_in(self) -> None:
        async with self._session.get(self._page) as answer:
            assert answer.status == 200

    async def page(
        self, question: str, body: Any, method: str = "POST", **headers: str
    ) -> tuple[int, Any, aiohttp.ClientResponse]:
        url = self._page.with_path(f"/stowplan/v1/{question}").with_query(None)
        return await self._ask(method, url, body, headers)

    async def as_user(self, name: str, path: str, body: Any) -> tuple[int, Any]:
        """Ask the API server as a user, "" for its administrator."""
        headers = {"Authorization": f"Bearer {self._token}"}
        if name:
            headers["Impersonate-User"] = name
        return (await self._ask("POST", URL(self.cluster.server.url) / path.lstrip("/"), body, headers))[:2]

    async def _ask(
        self, method: str, url: URL, body: Any, headers: dict[str, str]
    ) -> tuple[int, Any, aiohttp.ClientResponse]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        sent = {"Content-Type": "application/json", **given}
        skipped = [name for name, value in sent.items() if not value]
        sent = {name: value for name, value in sent.items() if value}
        async with self._session.request(
            method, url, data=data, headers=sent, ssl=False, skip_auto_headers=skipped
        ) as answer:
            return answer.status, json.loads(await answer.read()), answer


@asynccontextmanager
async def asking(questions: ForkedQuestions | None = None) -> AsyncIterator[Asking]:
    """A cluster of three nodes."""
    plan = ClusterPlan(
        shapes=[NodeShape(count=3)],
        listening=Listening("127.0.0.1", 0),
        questions=questions or ForkedQuestions(TryLimits(seconds=60)),
    )
    async with (
        LocalCluster(plan).running() as cluster,
        PageServer(cluster.routes) as page,
        aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session,
    ):
        found = Asking(cluster, page, session)
        await found.sign_in()
        yield found


def told(story: Callable[[Asking], Awaitable[None]], questions: ForkedQuestions | None = None) -> None:
    async def run() -> None:
        async with asking(questions) as asked:
            await story(asked)

    asyncio.run(run())


def test_only_the_page_itself_can_ask_and_only_so_much() -> None:
    async def story(asked: Asking) -> None:
        code, found, answer = await asked.page("fit", FIT)
        assert code == 200, found
        assert (found["document"], found["result"]["fits"]) == ("tried", True)
        assert found["limits"] == {"seconds": 60, "memory": 1024}
        assert answer.headers["Cache-Control"] == "no-store"
        host = f"127.0.0.1:{answer.url.port}"
        same = {"Origin": f"http://{host}", "Sec_Fetch_Site": "same-origin"}
        assert (await asked.page("fit", FIT, **same))[0] == 200
        refused: list[tuple[dict[str, str], int, str]] = [
            ({"Content_Type": "text/plain"}, 415, "Content-Type: expected application/json"),
            ({"Content_Type": "application/x-www-form-urlencoded"}, 415, "Content-Type"),
            ({"Origin": "http://evil.example"}, 403, "Origin"),
            ({"Origin": "null"}, 403, "Origin"),
            ({"Sec_Fetch_Site": "cross-site"}, 403, "Sec-Fetch-Site"),
        ]
        for headers, code, said in refused:
            got, status, _ = await asked.page("fit", FIT, **headers)
            assert (got, said in status["message"]) == (code, True), (headers, status)
        assert (await asked.page("fit", FIT, Content_Type=""))[0] == 415
        packed = gzip.compress(b"{}")
        assert (await asked.page("fit", packed, Content_Encoding="gzip"))[0] == 415
        code, status, _ = await asked.page("fit", b" " * (MOST_BYTES + 1))
        assert (code, status["message"]) == (413, "body: expected at most 1024 KiB")
        assert (await asked.page("fit", FIT, method="PUT"))[0] == 405
        assert (await asked.page("nodes", FIT))[0] == 405
        code, status, _ = await asked.page("fit", {"manifests": POD, "replicas": "many"})
        assert (code, status["details"]["causes"][0]["field"]) == (400, "replicas")

    told(story)


def test_an_answer_that_takes_too_long_ends_and_the_loop_goes_on() -> None:
    async def story(asked: Asking) -> None:
        task = asyncio.create_task(asked.page("whatif", ENDLESS))
        answers = 0
        while not task.done():
            code, _ = await asked.as_user("", "/stowplan/v1/fit", b"{")
            answers += code in (400, 429)
            await asyncio.sleep(0.01)
        code, status, _ = await task
        assert (code, status["message"]) == (504, "not answered within 1.5 s: ask about less")
        assert answers

    told(story, ForkedQuestions(TryLimits(seconds=1.5)))


def test_a_few_are_answered_at_once_and_those_that_nobody_waits_for_end() -> None:
    questions = ForkedQuestions(TryLimits(seconds=300), at_once=1)

    async def story(asked: Asking) -> None:
        task = asyncio.create_task(asked.page("whatif", ENDLESS))
        while not questions.running:
            await asyncio.sleep(0.005)
        code, status, answer = await asked.page("fit", FIT)
        assert (code, answer.headers["Retry-After"]) == (429, "2")
        assert status["message"] == "1 question being answered: try again"
        task.cancel()
        while questions.running:
            await asyncio.sleep(0.01)
        assert (await asked.page("fit", FIT))[0] == 200

    told(story, questions)


def test_a_server_that_stops_waits_for_no_answer() -> None:
    questions = ForkedQuestions(TryLimits(seconds=300))

    async def story(asked: Asking) -> None:
        task = asyncio.create_task(asked.page("whatif", ENDLESS))
        while not questions.running:
            await asyncio.sleep(0.005)
        asked.cluster.routes.close()
        code, status, _ = await task
        assert (code, status["message"]) == (503, "the server is shutting down")

    told(story, questions)


def test_answers_have_the_rights_of_the_viewer() -> None:
    async def story(asked: Asking) -> None:
        async def create(path: str, body: Any) -> None:
            code, status = await asked.as_user("", path, body)
            assert code == 201, status

        for name in ("mine", "theirs"):
            await create("/api/v1/namespaces", {"metadata": {"name": name}})
        verbs, paths = ["get", "post"], ["/stowplan/v1*"]
        may_ask = {"verbs": verbs, "nonResourceURLs": paths}
        await create(f"{RBAC}/clusterroles", role("asks", may_ask))
        await create(f"{RBAC}/clusterroles", role("nodes", rule("get list", "nodes")))
        await create(f"{RBAC}/namespaces/mine/roles", role("pods", rule("get list", "pods")))
        for name in ("ann", "bob"):
            await create(
                f"{RBAC}/clusterrolebindings", binding(f"{name}-asks", "ClusterRole", "asks", user(name))
            )
            await create(
                f"{RBAC}/namespaces/mine/rolebindings", binding(f"{name}-pods", "Role", "pods", user(name))
            )
        await create(f"{RBAC}/clusterrolebindings", binding("ann-nodes", "ClusterRole", "nodes", user("ann")))
        mine, theirs = ({**FIT, "namespace": name} for name in ("mine", "theirs"))
        expected = [
            ("ann", "fit", mine, 200, ""),
            ("ann", "fit", theirs, 403, 'pods in the namespace "theirs"'),
            ("ann", "fit", {**theirs, "manifests": "nonsense: ["}, 400, ""),
            ("ann", "whatif", {"changes": [{"cordon": "node-0"}]}, 200, ""),
            ("ann", "whatif", {"changes": [{"delete": "pod/x"}], "namespace": "theirs"}, 403, "theirs"),
            ("bob", "fit", mine, 403, "reading nodes is not allowed"),
            ("bob", "whatif", {"changes": [{"cordon": "node-0"}]}, 403, "nodes"),
            ("bob", "explain", mine, 200, ""),
            ("bob", "explain", theirs, 403, "theirs"),
            ("eve", "explain", mine, 403, 'User "eve" cannot post path "/stowplan/v1/explain"'),
        ]
        for name, question, body, code, said in expected:
            got, found = await asked.as_user(name, f"/stowplan/v1/{question}", body)
            assert (got, said in found.get("message", "")) == (code, True), (name, question, found)

    told(story)
