"""Requests to servers of this machine, without TLS. httpx's own functions read all certificate
authorities for each request, which takes 25 ms of a core: much for a test that asks until it sees
what it waits for."""

import httpx


def client(base_url: str = "", *, timeout_s: float = 5) -> httpx.Client:
    """A connection for each request: servers are killed, and close what is idle while the machine
    is busy with something else."""
    limits = httpx.Limits(max_keepalive_connections=0)
    return httpx.Client(base_url=base_url, timeout=timeout_s, verify=False, limits=limits)


_CLIENT = client()

get = _CLIENT.get
put = _CLIENT.put
post = _CLIENT.post
delete = _CLIENT.delete
request = _CLIENT.request
