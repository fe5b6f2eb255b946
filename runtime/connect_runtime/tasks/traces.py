"""A failure's traceback as users may read it: without the secrets of its configs.

Secrets are the values of keys that a config definition calls passwords or whose names say so, and
what such values hold inside, like the password in `sasl.jaas.config` or in a URL. A message that
changes a secret before it shows it gets past this.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from connect_runtime import plugins
from connect_runtime.api import ConfigDef, ConfigType
from connect_runtime.api.configdef import HIDDEN
from connect_runtime.tasks.launch import TaskLaunch

_SECRET_KEY: Final = re.compile(
    r"passw|pwd|secret|token|credential|jaas|private|(^|[._-])key$|api[._-]?key|access[._-]?key",
    re.IGNORECASE,
)
# password="..." as in JAAS, password=... as in connection strings, and user:...@host
_INSIDE: Final = (
    re.compile(r"""(?i)(?:passw\w*|pwd|secret|token)\w*["']?\s*[=:]\s*"((?:[^"\\]|\\.)+)\""""),
    re.compile(r"""(?i)(?:passw\w*|pwd|secret|token)\w*["']?\s*[=:]\s*([^\s"';,&}]+)"""),
    re.compile(r"://[^/\s:@]*:([^/\s@]+)@"),
)
_SHORTEST: Final = 4  # anything shorter is found in every text
_PLAIN: Final = frozenset({"true", "false", "none", "null", "https", "http"})


def trace_of(error: BaseException, launch: TaskLaunch) -> str:
    """The traceback's text without the secrets of the task's, connector's and worker's configs."""
    text = "".join(traceback.format_exception(error)).rstrip()
    configs = (launch.config, launch.connector_config, launch.worker)
    return redacted(text, configs, password_keys(launch.connector_config))


def redacted(
    text: str, configs: Iterable[Mapping[str, str]], passwords: frozenset[str] = frozenset()
) -> str:
    """The text without the secrets of these configs; `passwords` are keys of secrets by type."""
    secrets = {
        form for config in configs for each in _secrets(config, passwords) for form in _forms(each)
    }
    # the longest first, so that no part of one is left
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def password_keys(connector_config: Mapping[str, str]) -> frozenset[str]:
    """The keys that the connector's own definition calls passwords; none if it cannot be had."""
    try:
        definition = plugins.connector(connector_config["connector.class"]).cls().config()
    except Exception:  # whatever the plugin raises: the text must be told all the same
        return frozenset()
    return _of_type_password(definition)


def _of_type_password(definition: ConfigDef) -> frozenset[str]:
    return frozenset(
        name for name, key in definition.keys.items() if key.type is ConfigType.PASSWORD
    )


def _secrets(config: Mapping[str, str], passwords: frozenset[str]) -> Iterator[str]:
    for key, value in config.items():
        if key in passwords or _SECRET_KEY.search(key):
            yield value
        for pattern in _INSIDE:
            yield from pattern.findall(value)


def _forms(secret: str) -> Iterator[str]:
    """A secret as it is, and as `repr` shows it within other texts."""
    if len(secret) < _SHORTEST or secret.lower() in _PLAIN:
        return
    yield secret
    yield repr(secret)[1:-1]
