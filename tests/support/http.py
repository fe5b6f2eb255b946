"""Requests to servers of this machine, without TLS. httpx's own functions read all certificate
authorities for each request, which takes 25 ms of a core: much for a test that asks until it sees
what it waits for."""

import httpx

# A connection for each request: servers are killed, and take those that are kept with them
_CLIENT = httpx.Client(verify=False, limits=httpx.Limits(max_keepalive_connections=0))

get = _CLIENT.get
put = _CLIENT.put
post = _CLIENT.post
delete = _CLIENT.delete
request = _CLIENT.request
