"""The resources below /admin/loggers: levels of this worker's loggers, or of all workers'."""

from __future__ import annotations

import logging
from collections.abc import Callable

from connect_runtime.herder.verbs import RequestError, Verbs
from connect_runtime.logs import logger_levels
from connect_runtime.logs.logger_levels import LoggerLevel
from connect_runtime.rest import bodies
from connect_runtime.rest.exchange import Call, Reply, Resource
from connect_runtime.rest.wire import Json

_log = logging.getLogger(__name__)

_SCOPES = ("worker", "cluster")


class Loggers:
    """The resources, by method and path. `verbs` raises RequestError while there are none."""

    def __init__(self, verbs: Callable[[], Verbs]) -> None:
        self._verbs = verbs

    def routes(self) -> dict[tuple[str, str], Resource]:
        """Returns the resources; `{logger}` is a logger's name."""
        return {
            ("GET", "/admin/loggers"): self.all,
            ("GET", "/admin/loggers/{logger}"): self.one,
            ("PUT", "/admin/loggers/{logger}"): self.set,
        }

    def all(self, call: Call) -> Reply:
        levels = logger_levels.levels()
        return Reply(200, {name: _level_json(level) for name, level in levels.items()})

    def one(self, call: Call) -> Reply:
        name = call.path["logger"]
        found = logger_levels.level_of(name)
        if found is None:
            raise RequestError(404, f"Logger {name} not found.")
        return Reply(200, _level_json(found))

    def set(self, call: Call) -> Reply:
        name = call.path["logger"]
        level = bodies.logger_request(call.entity())
        if not logger_levels.is_level(level):
            raise RequestError(404, f"invalid log level '{level}'.")
        scopes = call.values("scope")
        scope = scopes[0].lower() if scopes else _SCOPES[0]
        if scope == "cluster":
            self._verbs().set_logger_level(name, level)
            return Reply(204)
        if scope not in _SCOPES:
            _log.warning("The scope of a logger's level is not worker or cluster; worker is used")
        return Reply(200, logger_levels.set_level(name, level))


def _level_json(found: LoggerLevel) -> Json:
    return {"level": found.level, "last_modified": found.last_modified_ms}
