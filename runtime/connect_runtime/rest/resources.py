"""The resources below /connectors, of the worker itself (its versions, health and metrics), and of
the levels of its loggers, or of all workers'. Each makes one call and answers as Connect does.

Status codes and shapes only; the herder decides what is refused, and why.
"""

from __future__ import annotations

import base64
import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias
from urllib.parse import quote

from connect_runtime import KAFKA_VERSION
from connect_runtime.engine import java_loggers
from connect_runtime.herder.connect_cluster import ConnectCluster
from connect_runtime.herder.verbs import RequestError
from connect_runtime.logs import logger_levels
from connect_runtime.logs.logger_levels import LoggerLevel
from connect_runtime.metrics.page import CONTENT_TYPE
from connect_runtime.rest import request_bodies, wire
from connect_runtime.rest.exchange import Call, Reply, Resource, Text
from connect_runtime.rest.wire import Json
from connect_runtime.storage.snapshots import TaskId

# characters that Java's UriBuilder does not encode
_UNQUOTED: Final = "!$&'()*+,;=:@~"
# Python refuses to convert numbers of some thousand digits
_NUMBER: Final = re.compile(r"[+-]?\d{1,1000}")
# the range of Java's int
_TASK_MAX: Final = 2**31
# The signature of requests that Apache's workers send each other (`InternalRequestSignature`)
_SUPPORTED: Final = "HmacSHA256"

_OfConnector: TypeAlias = Callable[[ConnectCluster, str], Any]


class ConnectorResources:
    """The resources, by method and path. `verbs` raises RequestError while there are none."""

    def __init__(self, verbs: Callable[[], ConnectCluster]) -> None:
        self._current = verbs

    @property
    def _verbs(self) -> ConnectCluster:
        return self._current()

    def routes(self) -> dict[tuple[str, str], Resource]:
        """Returns the resources; `{name}` is a connector, `{task}` a number. Requests of Apache's
        workers among themselves are refused by any worker."""
        path = "/connectors/{name}"
        return {
            ("GET", "/connectors"): self.all,
            ("POST", "/connectors"): self._by_leader(self.create),
            ("GET", path): self._read(
                lambda verbs, name: wire.connector_info_json(verbs.info(name))
            ),
            ("DELETE", path): self._change(204, lambda verbs, name: verbs.delete(name)),
            ("GET", f"{path}/config"): self._read(
                lambda verbs, name: wire.config_json(verbs.info(name))
            ),
            ("PUT", f"{path}/config"): self._by_leader(self.put_config),
            ("PATCH", f"{path}/config"): self._by_leader(self.patch_config),
            ("GET", f"{path}/status"): self._read(
                lambda verbs, name: wire.connector_status_json(verbs.status(name))
            ),
            ("PUT", f"{path}/pause"): self._change(202, lambda verbs, name: verbs.pause(name)),
            ("PUT", f"{path}/resume"): self._change(202, lambda verbs, name: verbs.resume(name)),
            ("PUT", f"{path}/stop"): self._change(204, lambda verbs, name: verbs.stop(name)),
            ("POST", f"{path}/restart"): self._by_leader(self.restart),
            ("GET", f"{path}/tasks"): self._read(
                lambda verbs, name: wire.tasks_json(verbs.tasks(name))
            ),
            ("POST", f"{path}/tasks"): self.put_tasks,
            ("PUT", f"{path}/fence"): self.fence,
            ("GET", path + "/tasks/{task}/status"): self.task_status,
            ("POST", path + "/tasks/{task}/restart"): self._by_leader(self.restart_task),
            ("GET", f"{path}/topics"): self._read(
                lambda verbs, name: {name: {"topics": list(verbs.topics(name))}}
            ),
            ("PUT", f"{path}/topics/reset"): self._change(
                202, lambda verbs, name: verbs.reset_topics(name)
            ),
            ("GET", f"{path}/offsets"): self._read(
                lambda verbs, name: wire.offsets_json(verbs.offsets(name))
            ),
            ("PATCH", f"{path}/offsets"): self._by_leader(self.alter_offsets),
            ("DELETE", f"{path}/offsets"): self._by_leader(
                self._read(lambda verbs, name: {"message": verbs.reset_offsets(name)})
            ),
        }

    def _read(self, json: _OfConnector) -> Resource:
        return lambda call: Reply(200, json(self._verbs, call.path["name"]))

    def _change(self, status: int, change: _OfConnector) -> Resource:
        """Returns a write whose answer has a status and no body."""

        def answer(call: Call) -> Reply:
            change(self._verbs, call.path["name"])
            return Reply(status)

        return self._by_leader(answer)

    def _by_leader(self, write: Resource) -> Resource:
        """Returns the resource for leaders only: other workers do not even read the request, so
        that it gets the leader's answer."""

        def answer(call: Call) -> Reply:
            self._verbs.must_lead()
            return write(call)

        return answer

    def all(self, call: Call) -> Reply:
        names = list(self._verbs.connectors())
        expansions = call.values("expand")
        if not expansions:
            return Reply(200, names)
        expanded = {name: self._expanded(name, expansions) for name in names}
        return Reply(200, {name: json for name, json in expanded.items() if json is not None})

    def _expanded(self, name: str, expansions: list[str]) -> dict[str, Any] | None:
        """Returns the expanded connector; None without a status, which Connect leaves out."""
        json = {}
        try:
            for expansion in expansions:
                if expansion == "status":
                    json[expansion] = wire.connector_status_json(self._verbs.status(name))
                elif expansion == "info":
                    json[expansion] = wire.connector_info_json(self._verbs.info(name))
        except RequestError as error:
            if error.status != 404:
                raise
            return None
        return json

    def create(self, call: Call) -> Reply:
        request = request_bodies.create_request(call.entity())
        if "/" in request.name:
            raise RequestError(
                400,
                f"Connector name {request.name} holds a slash, which the paths of this API cannot "
                "carry; choose a name without one",
            )
        info = self._verbs.create(request.name, request.config, request.initial_state)
        return _created(call, request.name, wire.connector_info_json(info))

    def put_config(self, call: Call) -> Reply:
        name = call.path["name"]
        config = request_bodies.config_request(call.entity(), name)
        info, created = self._verbs.put_config(name, config)
        if created:
            return _created(call, name, wire.connector_info_json(info))
        return Reply(200, wire.connector_info_json(info))

    def patch_config(self, call: Call) -> Reply:
        name = call.path["name"]
        patch = request_bodies.patch_request(call.entity())
        self._verbs.config(name)  # an unknown connector comes before a patch that is null
        if patch is None:
            raise request_bodies.no_patch()
        return Reply(200, wire.connector_info_json(self._verbs.patch_config(name, patch)))

    def restart(self, call: Call) -> Reply:
        status = self._verbs.restart(
            call.path["name"],
            include_tasks=call.flag("includeTasks"),
            only_failed=call.flag("onlyFailed"),
        )
        return Reply(204) if status is None else Reply(202, wire.connector_status_json(status))

    def put_tasks(self, call: Call) -> Reply:
        request_bodies.check_task_configs(call.entity())
        raise _internal_refusal(call.headers)

    def fence(self, call: Call) -> Reply:
        raise _internal_refusal(call.headers)

    def task_status(self, call: Call) -> Reply:
        task = _task(call)
        missing = RequestError(404, f"No status found for task {task}")
        try:
            status = self._verbs.status(task.connector).tasks.get(task.task)
        except RequestError as error:
            raise missing if error.status == 404 else error from error
        if status is None:
            raise missing
        return Reply(200, wire.task_status_json(task.task, status))

    def restart_task(self, call: Call) -> Reply:
        task = _task(call)
        self._verbs.restart_task(task.connector, task.task)
        return Reply(204)

    def alter_offsets(self, call: Call) -> Reply:
        entries = request_bodies.offsets_request(call.entity())
        return Reply(200, {"message": self._verbs.alter_offsets(call.path["name"], entries)})


def _task(call: Call) -> TaskId:
    text = call.path["task"]
    if not _NUMBER.fullmatch(text) or not -_TASK_MAX <= int(text) < _TASK_MAX:
        raise RequestError(404, "HTTP 404 Not Found")
    return TaskId(call.path["name"], int(text))


def _created(call: Call, name: str, json: Any) -> Reply:
    return Reply(201, json, {"Location": f"{call.base}/connectors/{quote(name, safe=_UNQUOTED)}"})


def _internal_refusal(headers: Mapping[str, str]) -> RequestError:
    """Returns why a request of another worker is refused. Workers use topics here, and have no
    session key: no signature is valid."""
    signature = headers.get("x-connect-authorization")
    algorithm = headers.get("x-connect-request-signature-algorithm")
    if signature is None or algorithm is None:
        return RequestError(400, "Internal request missing required signature")
    if algorithm != _SUPPORTED:
        text = f"This worker supports signatures of {_SUPPORTED} only, not of {algorithm}"
        return RequestError(400, text)
    try:
        # Java needs no padding
        padding = "" if "=" in signature else "=" * (-len(signature) % 4)
        base64.b64decode(signature + padding, validate=True)
    except ValueError:
        return RequestError(400, "The signature of the internal request is not base64")
    return RequestError(403, "Internal request contained invalid signature.")


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
        verbs: Callable[[], ConnectCluster | None],
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

    def started(self) -> ConnectCluster:
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

    def __init__(self, verbs: Callable[[], ConnectCluster]) -> None:
        self._verbs = verbs

    def routes(self) -> dict[tuple[str, str], Resource]:
        """Returns the resources, by method and path; `{logger}` is a logger's name."""
        return {
            ("GET", "/admin/loggers"): self.all,
            ("GET", "/admin/loggers/{logger}"): self.one,
            ("PUT", "/admin/loggers/{logger}"): self.set,
        }

    def all(self, call: Call) -> Reply:
        levels = java_loggers.levels()
        return Reply(200, {name: _level_json(level) for name, level in levels.items()})

    def one(self, call: Call) -> Reply:
        name = call.path["logger"]
        level = java_loggers.level_of(name)
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
        return Reply(200, java_loggers.set_level(name, level))


def _level_json(level: LoggerLevel) -> Json:
    return {"level": level.level, "last_modified": level.last_modified_ms}
