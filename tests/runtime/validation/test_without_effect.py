"""Keys that the runtime takes and does not act on are told, by name only."""

import pytest

from connect_runtime.validation.without_effect import without_effect


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("errors.tolerance", "all", None),
        ("errors.retry.timeout", "-1", None),
        ("transforms", "a", None),
        ("errors.log.enable", "TRUE", "has no effect"),
        ("errors.deadletterqueue.topic.name", "dead", "has no effect"),
        ("offsets.storage.topic", "mine", None),
        ("topic.creation.default.partitions", "3", None),
        ("admin.override.client.id", "a", None),
        ("header.converter", "anything", None),
        ("connection.password", "${file:/run/secrets:db}", "a config provider file that"),
        ("connection.password", "pa${ss:word}", "a config provider that"),
        ("connection.url", "${env:URL}", None),
        ("file", "/tmp/$x{y}", None),
        ("topic", "lines", None),
    ],
)
def test_what_is_told(key: str, value: str, told: str | None) -> None:
    found = without_effect({"name": "c", key: value}, {"config.providers": "env"})
    if told is None:
        assert found == ()
    else:
        (text,) = found
        assert text.startswith(key)
        assert told in text
        assert value not in text or value in key
