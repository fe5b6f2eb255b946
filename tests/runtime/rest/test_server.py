"""The HTTP server: its port, and how it ends."""

from __future__ import annotations

import socket

import pytest
from starlette.responses import PlainTextResponse

from connect_runtime.rest.http_server import BoundSocket, RestServer
from connect_specs.diagnostics import ExitCode, Failed
from runtime.rest.client import app_of
from runtime.rest.fake_verbs import FakeVerbs
from runtime.rest.serving import read_answer, served
from support import http


def test_port_0_binds_a_free_port_and_stop_releases_it() -> None:
    bound = BoundSocket.at("127.0.0.1", 0)
    server = RestServer(PlainTextResponse("here"), bound)
    server.start()
    try:
        assert http.get(f"http://127.0.0.1:{bound.port}/").text == "here"
    finally:
        server.stop()
    BoundSocket.at("127.0.0.1", bound.port).close()


def test_a_port_in_use_is_an_error_with_the_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(Failed) as raised:
            BoundSocket.at("127.0.0.1", port)
    assert f"127.0.0.1:{port}" in str(raised.value)
    assert raised.value.exit_code is ExitCode.FAILED  # the cluster has no part in it


def test_a_listener_that_is_listed_twice_is_an_error() -> None:
    """Two sockets can have the port, until one of them listens."""
    first = BoundSocket.at("127.0.0.1", 0)
    second = BoundSocket.at("127.0.0.1", first.port)
    first.listen()
    with pytest.raises(Failed) as raised:
        second.listen()
    assert f"127.0.0.1:{first.port}" in str(raised.value)
    first.close()
    second.close()


def test_accept_headers_are_joined_and_proxy_headers_ignored() -> None:
    """An Accept header may come in parts, and those of proxies do not change a Location."""
    body = b'{"name":"new","config":{"connector.class":"FileStreamSource","topic":"t"}}'
    with served(app_of(FakeVerbs())) as server, server.connect() as connection:
        connection.sendall(
            b"POST /connectors HTTP/1.1\r\nHost: localhost:1\r\nConnection: close\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n"
            b"Accept: text/html\r\nAccept: application/json\r\n"
            b"X-Forwarded-Proto: https\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n%s" % (len(body), body)
        )
        answer = read_answer(connection)
    assert answer.startswith(b"HTTP/1.1 201 ")
    assert b"\r\nlocation: http://localhost:1/connectors/new\r\n" in answer


def test_answers_do_not_wait_for_the_clients_ack() -> None:
    """asyncio turns Nagle off for sockets that name their protocol, as this one must."""
    bound = BoundSocket.at("127.0.0.1", 0)
    bound.socket.listen()
    with socket.create_connection(("127.0.0.1", bound.port)):
        accepted, _ = bound.socket.accept()
        with accepted:
            assert accepted.proto == socket.IPPROTO_TCP
    bound.close()
