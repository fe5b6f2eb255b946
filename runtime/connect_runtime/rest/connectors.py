"""The resources below /connectors: each makes one call to the herder and answers as Connect does.

Status codes and shapes only; the herder decides what is refused, and why.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from connect_runtime.herder.verbs import RequestError, Verbs
from connect_runtime.rest import bodies, signatures, wire
from connect_runtime.rest.exchange import Call, Reply, Resource
from connect_runtime.storage.snapshots import TaskId

# characters that Java's UriBuilder does not encode
_UNQUOTED = "!$&'()*+,;=:@~"
# Python refuses to convert numbers of some thousand digits
_NUMBER = re.compile(r"[+-]?\d{1,1000}")
# the range of Java's int
_TASK_MAX = 2**31


class Connectors:
    """The resources, by method and path. `verbs` raises RequestError while there are none."""

    def __init__(self, verbs: Callable[[], Verbs]) -> None:
        self._current = verbs

    @property
    def _verbs(self) -> Verbs:
        return self._current()

    def routes(self) -> dict[tuple[str, str], Resource]:
        """Returns the resources; `{name}` is a connector, `{task}` a number. Requests of Apache's
        workers among themselves are refused by any worker."""
        one = "/connectors/{name}"
        writes = {
            ("POST", "/connectors"): self.create,
            ("DELETE", one): self.delete,
            ("PUT", f"{one}/config"): self.put_config,
            ("PATCH", f"{one}/config"): self.patch_config,
            ("PUT", f"{one}/pause"): self.pause,
            ("PUT", f"{one}/resume"): self.resume,
            ("PUT", f"{one}/stop"): self.stop,
            ("POST", f"{one}/restart"): self.restart,
            ("POST", one + "/tasks/{task}/restart"): self.restart_task,
            ("PUT", f"{one}/topics/reset"): self.reset_topics,
            ("PATCH", f"{one}/offsets"): self.alter_offsets,
            ("DELETE", f"{one}/offsets"): self.reset_offsets,
        }
        return {
            **{key: self._of_leader(write) for key, write in writes.items()},
            ("GET", "/connectors"): self.all,
            ("GET", one): self.info,
            ("GET", f"{one}/config"): self.config,
            ("GET", f"{one}/status"): self.status,
            ("GET", f"{one}/tasks"): self.tasks,
            ("POST", f"{one}/tasks"): self.put_tasks,
            ("PUT", f"{one}/fence"): self.fence,
            ("GET", one + "/tasks/{task}/status"): self.task_status,
            ("GET", f"{one}/topics"): self.topics,
            ("GET", f"{one}/offsets"): self.offsets,
        }

    def _of_leader(self, write: Resource) -> Resource:
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
        found = {}
        for name in names:
            expanded = self._expanded(name, expansions)
            if expanded is not None:
                found[name] = expanded
        return Reply(200, found)

    def _expanded(self, name: str, expansions: list[str]) -> dict[str, Any] | None:
        """Returns the expanded connector; None without a status, which Connect leaves out."""
        found = {}
        try:
            for expansion in expansions:
                if expansion == "status":
                    found[expansion] = wire.connector_status_json(self._verbs.status(name))
                elif expansion == "info":
                    found[expansion] = wire.connector_info_json(self._verbs.info(name))
        except RequestError as error:
            if error.status != 404:
                raise
            return None
        return found

    def create(self, call: Call) -> Reply:
        request = bodies.create_request(call.entity())
        if "/" in request.name:
            raise RequestError(
                400,
                f"Connector name {request.name} holds a slash, which the paths of this API cannot "
                "carry; choose a name without one",
            )
        info = self._verbs.create(request.name, request.config, request.initial_state)
        return _created(call, request.name, wire.connector_info_json(info))

    def info(self, call: Call) -> Reply:
        return Reply(200, wire.connector_info_json(self._verbs.info(call.path["name"])))

    def delete(self, call: Call) -> Reply:
        self._verbs.delete(call.path["name"])
        return Reply(204)

    def config(self, call: Call) -> Reply:
        return Reply(200, wire.config_json(self._verbs.info(call.path["name"])))

    def put_config(self, call: Call) -> Reply:
        name = call.path["name"]
        config = bodies.config_request(call.entity(), name)
        info, created = self._verbs.put_config(name, config)
        if created:
            return _created(call, name, wire.connector_info_json(info))
        return Reply(200, wire.connector_info_json(info))

    def patch_config(self, call: Call) -> Reply:
        name = call.path["name"]
        patch = bodies.patch_request(call.entity())
        self._verbs.config(name)  # an unknown connector comes before a patch that is null
        if patch is None:
            raise bodies.no_patch()
        info = self._verbs.patch_config(name, patch)
        return Reply(200, wire.connector_info_json(info))

    def status(self, call: Call) -> Reply:
        return Reply(200, wire.connector_status_json(self._verbs.status(call.path["name"])))

    def pause(self, call: Call) -> Reply:
        self._verbs.pause(call.path["name"])
        return Reply(202)

    def resume(self, call: Call) -> Reply:
        self._verbs.resume(call.path["name"])
        return Reply(202)

    def stop(self, call: Call) -> Reply:
        self._verbs.stop(call.path["name"])
        return Reply(204)

    def restart(self, call: Call) -> Reply:
        status = self._verbs.restart(
            call.path["name"],
            include_tasks=call.flag("includeTasks"),
            only_failed=call.flag("onlyFailed"),
        )
        if status is None:
            return Reply(204)
        return Reply(202, wire.connector_status_json(status))

    def tasks(self, call: Call) -> Reply:
        return Reply(200, wire.tasks_json(self._verbs.tasks(call.path["name"])))

    def put_tasks(self, call: Call) -> Reply:
        bodies.task_configs_request(call.entity())
        raise signatures.refusal(call.headers)

    def fence(self, call: Call) -> Reply:
        raise signatures.refusal(call.headers)

    def task_status(self, call: Call) -> Reply:
        task = _task(call)
        missing = RequestError(404, f"No status found for task {task}")
        try:
            found = self._verbs.status(task.connector).tasks.get(task.task)
        except RequestError as error:
            raise missing if error.status == 404 else error from error
        if found is None:
            raise missing
        return Reply(200, wire.task_status_json(task.task, found))

    def restart_task(self, call: Call) -> Reply:
        task = _task(call)
        self._verbs.restart_task(task.connector, task.task)
        return Reply(204)

    def topics(self, call: Call) -> Reply:
        name = call.path["name"]
        return Reply(200, {name: {"topics": list(self._verbs.topics(name))}})

    def reset_topics(self, call: Call) -> Reply:
        self._verbs.reset_topics(call.path["name"])
        return Reply(202)

    def offsets(self, call: Call) -> Reply:
        return Reply(200, wire.offsets_json(self._verbs.offsets(call.path["name"])))

    def alter_offsets(self, call: Call) -> Reply:
        entries = bodies.offsets_request(call.entity())
        return Reply(200, {"message": self._verbs.alter_offsets(call.path["name"], entries)})

    def reset_offsets(self, call: Call) -> Reply:
        return Reply(200, {"message": self._verbs.reset_offsets(call.path["name"])})


def _task(call: Call) -> TaskId:
    text = call.path["task"]
    if not _NUMBER.fullmatch(text) or not -_TASK_MAX <= int(text) < _TASK_MAX:
        raise RequestError(404, "HTTP 404 Not Found")
    return TaskId(call.path["name"], int(text))


def _created(call: Call, name: str, json: Any) -> Reply:
    return Reply(201, json, {"Location": f"{call.base}/connectors/{quote(name, safe=_UNQUOTED)}"})
