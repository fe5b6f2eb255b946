"""References that the runtime passes on as they are are told, without the rest of the value."""

import pytest

from connect_runtime.validation.infos import unresolved_references


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("connection.password", "${file:/run/secrets:db}", "a config provider file that"),
        ("connection.password", "pa${ss:word}", "a config provider that"),
        ("connection.url", "${env:URL}", None),
        ("file", "/tmp/$x{y}", None),
        ("topic", "lines", None),
    ],
)
def test_what_is_told(key: str, value: str, told: str | None) -> None:
    found = unresolved_references({"name": "c", key: value}, {"config.providers": "env"})
    if told is None:
        assert found == ()
    else:
        (text,) = found
        assert text.startswith(key)
        assert told in text
        assert value not in text or value in key
