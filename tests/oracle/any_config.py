"""Random configs of the file connectors: a few keys of every connector, of transformations, of
predicates and of converters, with values that are right, odd and wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hypothesis import strategies as st

from connect_runtime import KAFKA_VERSION
from connect_runtime.java.scalars import java_trim
from connect_runtime.plugins import registry
from connect_runtime.plugins.registry import Plugin
from connect_runtime.rest.plugin_resources import keys_json
from support.exchanges import Exchange

Config = Mapping[str, str | None]

_SOURCE: Final = {"connector.class": "FileStreamSource", "topic": "t"}
_SINK: Final = {"connector.class": "FileStreamSink", "topics": "t"}
_NUMBERS: Final = (
    "0 -1 +1 1 007 1.0 1e3 0x10 1_000 1L NaN -0 2147483647 2147483648 -2147483649"
    " 9223372036854775807 9223372036854775808 32767 32768 \u0663 \uff11"
).split()
_WORDS: Final = (
    "true TRUE True yes a a,b a,,b , a, ,a a,a a.b a:b a:b,c:d a:b:c [ ( * a.* ^ $ % \\ ' {} ${x}"
    " ${ ${file:x} \u00df \u0130 \U0001f600 none NONE all REQUIRED poll connector json UTF-8 utf8"
    " int8 unix Timestamp V2 move null latest 4.1 [1 (,) [0.1,9] [1,2],[3,4] bogus Filter"
    " Json JsonConverter"
).split()
_VERSIONS: Final = (KAFKA_VERSION, f"[{KAFKA_VERSION}]")
_BLANKS: Final = ("", " ", "\t\n", " true ", " a , b ", "\u00a0", "\u0085x", "\x00", "a b", "1\n2")
VALUES: Final = st.sampled_from((*_NUMBERS, *_WORDS, *_BLANKS, *_VERSIONS, None))

# Their errors are told earlier, or in words of our own
_STRICTER: Final = ("offsets.storage.topic", "topic.creation.groups", "connector.plugin.version")
# Without a value, a worker answers with what Java raised
_EXPRESSIONS: Final = ("regex", "pattern")
_NEEDS_A_VALUE: Final = (
    *_EXPRESSIONS,
    ".renames",
    "errors.deadletterqueue.topic.name",
)


def exchanges() -> st.SearchStrategy[Exchange]:
    """Requests to validate such configs."""
    return _configs().filter(_is_comparable).map(_validation)


@st.composite
def _configs(draw: st.DrawFn) -> Config:
    found: dict[str, str | None] = {"name": "new", **draw(st.sampled_from((_SOURCE, _SINK)))}
    keys = [key["name"] for key in keys_json(str(found["connector.class"]))]
    for kind, plugins in (
        ("transforms", registry.plugins("transformation")),
        ("predicates", registry.plugins("predicate")),
    ):
        aliases = draw(st.sampled_from(((), (), ("a",), ("a", "b"))))
        if aliases:
            found[kind] = ",".join(aliases)
        for alias in aliases:
            plugin = draw(st.sampled_from(_apaches(plugins)))
            own = [key.name for key in plugin.cls().config()]
            found[f"{kind}.{alias}.type"] = plugin.class_name
            found |= {f"{kind}.{alias}.{name}": "a" for name in own if name in _EXPRESSIONS}
            own += ["plugin.version", *(["predicate", "negate"] if kind == "transforms" else [])]
            keys += [f"{kind}.{alias}.{name}" for name in own]
    for side, plugins in (
        ("key", registry.plugins("converter")),
        ("header", registry.plugins("header_converter")),
    ):
        if draw(st.booleans()):
            plugin = draw(st.sampled_from(_apaches(plugins)))
            found[f"{side}.converter"] = plugin.class_name
            keys += [f"{side}.converter.{key.name}" for key in plugin.cls().config()]
    given = st.dictionaries(st.sampled_from(sorted(set(keys))), VALUES, max_size=5)
    more = draw(given)
    return {**found, **{k: v for k, v in more.items() if k != "connector.class"}}


def _apaches(plugins: tuple[Plugin, ...]) -> list[Plugin]:
    return [each for each in plugins if each.class_name.startswith("org.apache.kafka.")]


def _is_comparable(config: Config) -> bool:
    if any(key.startswith(_STRICTER) for key in config):
        return False
    if any(value is None and key.endswith(_NEEDS_A_VALUE) for key, value in config.items()):
        return False
    if config.get("errors.deadletterqueue.topic.name") and config.get("topics.regex"):
        return False  # a worker fails at wrong expressions then
    for key, value in config.items():
        if key.endswith((".type", ".converter")) and value and java_trim(value) != value:
            return False
        if key.endswith((".type", ".converter", ".spec")) and value and ":" in value:
            return False
    return True


def _validation(config: Config) -> Exchange:
    path = f"/connector-plugins/{config['connector.class']}/config/validate"
    return Exchange("PUT", path, config)
