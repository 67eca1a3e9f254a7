"""Access to the port: each kind of caller on each path, compared with a real kube-scheduler's answers."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from observed.files import recorded
from server.serving.secureports import (
    CODES,
    TOKENS,
    AllowingApi,
    Answer,
    Caller,
    Clock,
    RecordedApi,
    page,
    port,
    recorded_pages,
)
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.runtime.logs import Logger
from stowplan.server.serving import (
    AuthenticationSettings,
    AuthorizationSettings,
    Limits,
    SecureServer,
    ServingError,
)
from stowplan.server.serving.authorization import AllowedPaths
from waiting import eventually

REFUSALS: dict[str, list[dict[str, Any]]] = recorded("ports/refusals")


def delegating(folder: Path, api: RecordedApi, **more: Any) -> SecureServer:
    given = {"authentication_client": api, "authorization_client": api, **more}
    return port(folder, given.pop("pages", None), **given)


async def collected(server: SecureServer, who: str, paths: list[str]) -> dict[str, Answer]:
    caller = Caller(server.port, TOKENS[who])
    reader, writer = await caller.connect()
    answers = {path: await caller.ask(reader, writer, path) for path in paths}
    writer.close()
    return answers


@pytest.mark.parametrize("who", TOKENS)
def test_every_caller_gets_the_recorded_code_on_every_path(tmp_path: Path, who: str) -> None:
    async def run() -> None:
        async with delegating(tmp_path, RecordedApi(), pages=recorded_pages()) as server:
            answers = await collected(server, who, list(CODES))
        assert {path: answer.code for path, answer in answers.items()} == {
            path: codes[who] for path, codes in CODES.items()
        }

    asyncio.run(run())


@pytest.mark.parametrize("who", TOKENS)
def test_refusals_have_the_recorded_bodies_and_headers(tmp_path: Path, who: str) -> None:
    async def run() -> None:
        async with delegating(tmp_path, RecordedApi(), pages=recorded_pages()) as server:
            answers = await collected(server, who, [one["path"] for one in REFUSALS[who]])
        for expected in REFUSALS[who]:
            answer = answers[expected["path"]]
            assert (answer.code, answer.body) == (expected["code"], expected["body"])
            assert {**answer.headers, "Date": ""} == {**expected["headers"], "Date": ""}

    asyncio.run(run())


def test_the_api_server_is_asked_what_and_as_often_as_recorded(tmp_path: Path) -> None:
    async def run() -> RecordedApi:
        api = RecordedApi()
        async with delegating(tmp_path, api, pages=recorded_pages(), clock=Clock()) as server:
            for who in TOKENS:
                await collected(server, who, list(CODES))
        return api

    asked = Counter(map(repr, asyncio.run(run()).reviews))
    once = Counter(repr(one["request"]) for one in recorded("wire/reviews"))
    expected = {key: 30 if "'wrong'" in key else 1 for key in once}
    assert asked.keys() <= expected.keys()
    assert all(asked[key] == expected[key] for key in asked)
    assert sum("TokenReview" in key for key in asked) == 4


@pytest.mark.parametrize("case", ["no-authentication-kubeconfig", "always-allow-metrics-and-profiling-off"])
def test_special_cases_are_answered_as_recorded(tmp_path: Path, case: str) -> None:
    async def run() -> None:
        paths = ("/healthz", "/readyz", "/livez", "/metrics") if "always" in case else None
        allowed = (
            AuthorizationSettings() if paths is None else AuthorizationSettings(always_allow_paths=paths)
        )
        pages = {path: page() for path in ("/healthz", "/metrics", "/metrics/slis", "/configz")}
        api = RecordedApi() if "always" in case else None
        async with port(
            tmp_path, pages, authentication_client=api, authorization_client=api, authorization=allowed
        ) as server:
            for expected in REFUSALS[case]:
                answer = await Caller(server.port, TOKENS[expected["who"]]).get(expected["path"])
                assert (answer.code, answer.body) == (expected["code"], expected["body"])
            if "always" in case:
                assert (await Caller(server.port).get("/metrics")).code == 200

    asyncio.run(run())


@pytest.mark.parametrize(
    ("listed", "path", "contained"),
    [
        ("/healthz", "/healthz", True),
        ("healthz", "/healthz", True),
        ("/healthz", "//healthz", False),
        ("/healthz", "/healthz/", False),
        ("/healthz", "/healthz/../metrics", False),
        ("/healthz/*", "/healthz/ping", True),
        ("/healthz/*", "/healthz", False),
        ("/debug*", "/debugging", True),
        ("*", "/anything", True),
        ("/", "/", True),
        ("/", "/x", False),
        ("", "/", True),
    ],
)
def test_a_path_is_always_allowed_if_it_is_listed_or_begins_like_a_star(
    listed: str, path: str, contained: bool
) -> None:
    assert (path in AllowedPaths([listed])) is contained


def test_a_star_in_the_middle_of_a_path_is_refused() -> None:
    with pytest.raises(ServingError, match=r'^only trailing \* allowed in "a\*/b"$'):
        AllowedPaths(["/a*/b"])


@pytest.mark.parametrize("authenticated", [None, False, "true", 1])
def test_only_a_review_that_says_true_proves_who_calls(tmp_path: Path, authenticated: Any) -> None:
    """A review may name a user and not vouch for it."""

    class Doubting(AllowingApi):
        def answer(self, body: Json) -> Json:
            status = {"authenticated": authenticated, "user": {"username": "ann", "groups": ["crew"]}}
            return {"allowed": True} if body["kind"] == "SubjectAccessReview" else status

    async def run() -> None:
        async with delegating(tmp_path, Doubting()) as server:
            assert (await Caller(server.port, "good").get("/metrics")).code == 401

    asyncio.run(run())


@pytest.mark.parametrize(
    ("user", "code"),
    [
        ("ann", 401),
        ({"username": 1}, 401),
        ({"username": "ann", "groups": "crew", "extra": [1]}, 200),
        ({"username": "ann", "groups": [{}], "extra": {"k": 7}, "uid": {}}, 200),
    ],
)
def test_reviews_of_wrong_types_are_no_error_of_the_server(tmp_path: Path, user: Any, code: int) -> None:
    class Lying(AllowingApi):
        def answer(self, body: Json) -> Json:
            status = {"authenticated": True, "user": user}
            return {"allowed": True} if body["kind"] == "SubjectAccessReview" else status

    async def run() -> None:
        async with delegating(tmp_path, Lying(), pages={"/metrics": page()}) as server:
            assert (await Caller(server.port, "good").get("/metrics")).code == code

    asyncio.run(run())


async def codes_at(
    folder: Path, api: RecordedApi, clock: Clock, steps: Callable[[Caller], Awaitable[None]], **more: Any
) -> None:
    async with delegating(folder, api, clock=clock, **more) as server:
        await steps(Caller(server.port, "good"))


def test_answers_about_tokens_and_rights_are_kept_for_their_time(tmp_path: Path) -> None:
    api, clock = AllowingApi(), Clock()
    settings = AuthorizationSettings(allowed_cache_ttl=20, denied_cache_ttl=5)

    async def steps(caller: Caller) -> None:
        seen = []
        for time, allowed in [
            (0, True),
            (9, False),
            (11, False),
            (19, False),
            (21, False),
            (25, True),
            (26, True),
        ]:
            clock.time, api.allowed = Clock().time + time, allowed
            seen.append(((await caller.get("/metrics")).code, *api.asked().values()))
        assert seen == [
            (200, 1, 1),
            (200, 1, 1),
            (200, 2, 1),
            (200, 2, 1),
            (403, 2 + 1, 2),
            (403, 3, 2),
            (200, 3, 3),
        ]

    asyncio.run(codes_at(tmp_path, api, clock, steps, authorization=settings))


def test_with_no_time_to_keep_answers_every_request_asks(tmp_path: Path) -> None:
    api = AllowingApi()
    settings = AuthorizationSettings(allowed_cache_ttl=0)

    async def steps(caller: Caller) -> None:
        for _ in range(3):
            await caller.get("/metrics")
        assert api.asked() == {"TokenReview": 3, "SubjectAccessReview": 3}

    tokens = AuthenticationSettings(token_cache_ttl=0)
    asyncio.run(codes_at(tmp_path, api, Clock(), steps, authorization=settings, authentication=tokens))


def test_who_asks_the_same_at_the_same_time_shares_one_review(tmp_path: Path) -> None:
    api = AllowingApi()
    api.may_answer.clear()

    async def steps(caller: Caller) -> None:
        asking = [asyncio.create_task(caller.get("/metrics")) for _ in range(10)]
        await eventually(lambda: api.reviews)
        await asyncio.sleep(0.1)
        api.may_answer.set()
        answers = await asyncio.gather(*asking)
        assert {answer.code for answer in answers} == {200}
        assert api.asked() == {"TokenReview": 1, "SubjectAccessReview": 1}

    asyncio.run(codes_at(tmp_path, api, Clock(), steps))


def test_a_review_is_tried_again_when_the_api_server_falters(tmp_path: Path) -> None:
    api = AllowingApi()
    api.failures = [ApiError(500, "InternalError", "oops")]

    async def steps(caller: Caller) -> None:
        assert (await caller.get("/metrics")).code == 200
        assert api.asked() == {"TokenReview": 2, "SubjectAccessReview": 1}

    asyncio.run(codes_at(tmp_path, api, Clock(), steps))


def test_an_api_server_that_refuses_to_review_lets_nobody_in(tmp_path: Path) -> None:
    async def run() -> None:
        api = AllowingApi()
        async with delegating(tmp_path, api) as server:
            api.failures = [ApiError(403, "Forbidden", "no tokenreviews for you")]
            assert (await Caller(server.port, "good").get("/healthz")).code == 401
            api.failures = [ApiError(403, "Forbidden", "no <reviews> for you")]
            answer = await Caller(server.port).get("/metrics?a=1")
            assert answer.code == 500
            assert answer.body == (
                'Internal Server Error: "/metrics?a=1": '
                "subjectaccessreviews.authorization.k8s.io: no &lt;reviews&gt; for you\n"
            )

    asyncio.run(run())


def test_a_flood_is_told_to_come_back_and_health_is_still_answered(tmp_path: Path) -> None:
    api = AllowingApi()
    api.may_answer.clear()

    async def run() -> None:
        async with delegating(tmp_path, api, limits=Limits(requests=2)) as server:
            flood = [asyncio.create_task(Caller(server.port).get(f"/metrics/{n}")) for n in range(6)]
            await eventually(lambda: sum(one.done() for one in flood) == 4)
            assert (await Caller(server.port).get("/healthz")).code == 200
            api.may_answer.set()
            answers = await asyncio.gather(*flood)
        assert Counter(answer.code for answer in answers) == {404: 2, 429: 4}
        assert {answer.headers.get("Retry-After") for answer in answers if answer.code == 429} == {"1"}

    asyncio.run(run())


def test_a_page_that_fails_is_reported_and_the_port_goes_on(tmp_path: Path) -> None:
    async def broken(request: Any) -> Any:
        raise RuntimeError("no such <thing>")

    async def run() -> None:
        async with port(tmp_path, {"/healthz": broken, "/livez": page()}) as server:
            failed = await Caller(server.port).get("/healthz")
            assert (failed.code, failed.body) == (
                500,
                'Internal Server Error: "/healthz": the page failed, see the log\n',
            )
            assert (await Caller(server.port).get("/livez")).body == "ok"

    asyncio.run(run())


def test_requests_are_logged_with_the_recorded_keys(tmp_path: Path) -> None:
    async def run() -> None:
        lines: list[tuple[int, str, dict[str, object]]] = []
        logger = Logger(lambda level, message, values: lines.append((level, message, dict(values))), 4)
        async with port(tmp_path, logger=logger) as server:
            await Caller(server.port, headers={"User-Agent": "me"}).get("/metrics?x=1")
        forbidden, logged, _ = lines[-3:]
        assert forbidden == (4, "Forbidden", {"URI": "/metrics?x=1", "reason": ""})
        assert logged[:2] == (3, "HTTP")
        assert list(logged[2]) == ["verb", "URI", "latency", "userAgent", "audit-ID", "srcIP", "resp"]
        assert [logged[2][key] for key in ("verb", "URI", "userAgent", "resp")] == [
            "GET",
            "/metrics?x=1",
            "me",
            403,
        ]

    asyncio.run(run())


def test_a_page_with_a_slash_at_its_end_answers_for_everything_below_it(tmp_path: Path) -> None:
    pages = {
        "/debug/": page(text="some"),
        "/debug/pprof/": page(text="more"),
        "/debug/flags": page(text="one"),
    }

    async def run() -> None:
        allowed = AuthorizationSettings(always_allow_paths=("*",))
        async with port(tmp_path, pages, authorization=allowed) as server:
            got = {
                path: (await Caller(server.port).get(path)).body
                for path in ("/debug/x", "/debug/pprof/heap", "/debug/flags", "/debug/flags/v", "/debug")
            }
        assert list(got.values()) == ["some", "more", "one", "some", "404 page not found\n"]

    asyncio.run(run())
