"""All pages behind the secure port, whose metrics say who asked for them."""

import asyncio
from pathlib import Path

from server.serving.pages.pageports import World
from server.serving.secureports import AllowingApi, Authority, Caller, authentication_settings_in, port


def asked(
    folder: Path, *tokens_and_paths: tuple[str, str], allowed: bool = True
) -> tuple[list[int], list[str]]:
    """The codes of some requests, and the lines of /metrics that an administrator then sees."""
    world, api, authority = World(), AllowingApi(), Authority("clients")
    api.allowed = allowed
    authentication_settings_in(api.store, clients=authority.pem)

    async def run() -> tuple[list[int], list[str]]:
        server = port(
            folder,
            world.pages(),
            authentication_client=api,
            authorization_client=api,
            observer=world.metrics.access,
        )
        async with server:
            codes = [(await Caller(server.port, token).get(path)).code for token, path in tokens_and_paths]
            admin = authority.issue("admin", "system:masters").context(folder)
            scraped = await Caller(server.port, context=admin).get("/metrics")
        return codes, scraped.body.splitlines()

    return asyncio.run(run())


def test_who_asks_and_who_may_is_counted(tmp_path: Path) -> None:
    codes, lines = asked(
        tmp_path, ("", "/healthz"), ("good", "/configz"), ("good", "/nosuch"), ("bad", "/livez")
    )
    assert codes == [200, 200, 404, 401]
    for line in (
        'authentication_attempts{result="success"} 4',
        'authentication_attempts{result="error"} 1',
        'authenticated_user_requests{username="admin"} 1',
        'authenticated_user_requests{username="other"} 3',
        'authorization_attempts_total{result="allowed"} 4',
        'authentication_token_cache_request_total{status="hit"} 1',
        'authentication_token_cache_request_total{status="miss"} 2',
        'authentication_token_cache_fetch_total{status="ok"} 1',
        'authentication_token_cache_fetch_total{status="error"} 1',
        'authentication_token_cache_active_fetch_count{status="in_flight"} 0',
        'authentication_token_cache_active_fetch_count{status="blocked"} 0',
        'apiserver_delegated_authn_request_total{code="201"} 2',
        'apiserver_delegated_authz_request_total{code="201"} 2',
        "apiserver_client_certificate_expiration_seconds_count 1",
        'apiserver_client_certificate_expiration_seconds_bucket{le="43200"} 0',
        'apiserver_client_certificate_expiration_seconds_bucket{le="86400"} 1',
    ):
        assert line in lines, line


def test_who_may_not_is_counted_too(tmp_path: Path) -> None:
    codes, lines = asked(tmp_path, ("", "/configz"), allowed=False)
    assert codes == [403]
    assert 'authorization_attempts_total{result="no-opinion"} 1' in lines
    assert 'authorization_duration_seconds_count{result="no-opinion"} 1' in lines
