"""The worker property `response.http.headers.config`: its rules, and the headers of answers."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import Any

import pytest

from connect_runtime.api import ConfigError
from connect_runtime.rest.rest_settings import HeaderRule, RestSettings, parse_rules
from runtime.rest.client import client_of, running_source

# As Apache's RestServerConfigTest has them
VALID = [
    "add  X-XSS-Protection: 1; mode=block",
    "set X-XSS-Protection: 1; mode=block",
    "setDate Last-Modified: 1",
    "addDate Expires: 0",
    "SET a:b",
]
INVALID = [
    "set",
    "badaction  X-Frame-Options:DENY",
    "set add X-XSS-Protection:1",
    "addX-XSS-Protection",
    "X-XSS-Protection:",
    "add X-XSS-Protection: ",
    "set X-XSS-Protection",
    "set X: y: z",
    "setDate X: soon",
    "set X:a\x01b",
    "setDate X: 999999999999999",
    "setDate X: -9999999999999",
    "add Content-Length: 1",
    "set transfer-encoding: chunked",
    f"set X: {'y' * 200_000}",
]


@pytest.mark.parametrize("rule", VALID)
def test_rules_that_connect_takes(rule: str) -> None:
    assert len(parse_rules(rule)) == 1


@pytest.mark.parametrize("rule", INVALID)
def test_other_rules_are_refused(rule: str) -> None:
    with pytest.raises(ConfigError, match=r"response\.http\.headers\.config"):
        parse_rules(rule)


def test_a_rule_in_quotes_may_hold_commas() -> None:
    assert parse_rules('add Cache-Control: a, "set X-B: c, d"') == (
        HeaderRule("Cache-Control", "a", adds=True, from_now=False),
        HeaderRule("X-B", "c, d", adds=False, from_now=False),
    )
    assert parse_rules(" ") == ()


def test_answers_have_the_headers() -> None:
    rules = parse_rules("set Content-Type: x/y, set X-A: 1, add X-A: 2, setDate Expires: 3600000")
    ask: Any = client_of(running_source(), RestSettings(headers=rules))
    for path in ("/", "/nope", "/connectors/a%2Fb"):
        found = ask("GET", path)
        assert found.headers.get_list("x-a") == ["1", "2"]
        expires = parsedate_to_datetime(found.headers["expires"])
        assert expires is not None
    assert ask("GET", "/").headers["content-type"] == "application/json"
