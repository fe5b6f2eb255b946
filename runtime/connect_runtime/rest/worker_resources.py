"""The resources of the worker itself: its versions, health and metrics, and the levels of its
loggers, or of all workers'."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from connect_runtime.herder.verbs import RequestError, Verbs
from connect_runtime.kafka_version import KAFKA_VERSION
from connect_runtime.logs import logger_levels
from connect_runtime.logs.logger_levels import LoggerLevel
from connect_runtime.metrics.page import CONTENT_TYPE
from connect_runtime.rest import request_bodies, wire
from connect_runtime.rest.exchange import Call, Reply, Resource, Text
from connect_runtime.rest.wire import Json

_log = logging.getLogger(__name__)

METRICS: Final = "/metrics"
_HEALTHY: Final = "Worker has completed startup and is ready to handle requests."
_STARTING: Final = "Worker is still starting up."
_SCOPES: Final = ("worker", "cluster")


class WorkerResources:
    """The resources of every listener but an admin one. `verbs` returns None until there is a
    herder; `metrics` the page for Prometheus, or raises RequestError."""

    def __init__(
        self,
        verbs: Callable[[], Verbs | None],
        cluster_id: Callable[[], str],
        commit: str,
        metrics: Callable[[], str] | None,
    ) -> None:
        self._verbs = verbs
        self._cluster_id = cluster_id
        self._commit = commit
        self._metrics = metrics

    def routes(self) -> dict[tuple[str, str], Resource]:
        """Returns the resources, by method and path."""
        routes: dict[tuple[str, str], Resource] = {
            ("GET", "/"): self.server,
            ("GET", "/health"): self.health,
            ("GET", "/runtime"): lambda call: Reply(
                200, wire.runtime_json(self.started().runtime())
            ),
        }
        metrics = self._metrics
        if metrics is not None:
            routes["GET", METRICS] = lambda call: Reply(200, text=Text(metrics(), CONTENT_TYPE))
        return routes

    def started(self) -> Verbs:
        """Returns the herder's verbs. Raises RequestError 503 while there are none."""
        verbs = self._verbs()
        if verbs is None:
            raise RequestError(503, "This worker is starting or ending; it answers no requests now")
        return verbs

    def server(self, call: Call) -> Reply:
        versions = {"version": KAFKA_VERSION, "commit": self._commit}
        return Reply(200, {**versions, "kafka_cluster_id": self._cluster_id()})

    def health(self, call: Call) -> Reply:
        verbs = self._verbs()
        if verbs is None or not verbs.ready():
            return Reply(503, {"status": "starting", "message": _STARTING})
        problem = verbs.problem()
        if problem is not None:
            return Reply(500, {"status": "unhealthy", "message": problem})
        # a restart, which an orchestrator may order, would not help
        degraded = verbs.degraded()
        message = _HEALTHY if degraded is None else f"{_HEALTHY} {degraded}"
        return Reply(200, {"status": "healthy", "message": message})


class LoggerResources:
    """The resources below /admin/loggers. `verbs` raises RequestError while there are none."""

    def __init__(self, verbs: Callable[[], Verbs]) -> None:
        self._verbs = verbs

    def routes(self) -> dict[tuple[str, str], Resource]:
        """Returns the resources, by method and path; `{logger}` is a logger's name."""
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
        level = logger_levels.level_of(name)
        if level is None:
            raise RequestError(404, f"Logger {name} not found.")
        return Reply(200, _level_json(level))

    def set(self, call: Call) -> Reply:
        name = call.path["logger"]
        level = request_bodies.logger_request(call.entity())
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


def _level_json(level: LoggerLevel) -> Json:
    return {"level": level.level, "last_modified": level.last_modified_ms}
