"""Requests whose length is ambiguous: none of them hides another one in its body."""

import re
import socket

import pytest

from localcluster.apiserver.served import Served
from waiting import PATIENCE

INNER = "GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
NAMESPACES = "POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\n"


def statuses(api: Served, text: str) -> list[int]:
    """The codes of all answers on one connection, until the server closes it."""
    host, port = api.server.url.split("//")[1].split(":")
    received = b""
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as connection:
        connection.sendall(text.encode())
        while part := connection.recv(65_536):
            received += part
    return [int(code) for code in re.findall(rb"HTTP/1\.[01] (\d+)", received)]


def test_two_requests_on_a_connection_get_two_answers(api: Served) -> None:
    first = "GET /version HTTP/1.1\r\nHost: x\r\n\r\n"
    assert len(statuses(api, first + INNER)) == 2
    body = f"GET /version HTTP/1.1\r\nHost: x\r\nContent-Length: {len(INNER)}\r\n\r\n{INNER}"
    assert len(statuses(api, body + INNER)) == 2, "what looks like a request is a body"


@pytest.mark.parametrize(
    "headers",
    [
        f"Content-Length: {len(INNER) + 5}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        f"Content-Length: 0\r\nContent-Length: {len(INNER)}\r\n\r\n",
        "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Content-Length: +0\r\n\r\n",
        f"Content-Length : {len(INNER)}\r\n\r\n",
        f"X: a\r\n Content-Length: {len(INNER)}\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n0;a\nb\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n",
    ],
)
def test_a_request_of_ambiguous_length_is_refused_and_the_connection_closed(
    headers: str, api: Served
) -> None:
    assert statuses(api, NAMESPACES + headers + INNER) == [400]
