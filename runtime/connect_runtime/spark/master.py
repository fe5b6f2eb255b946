"""Asks a standalone Spark master for its applications, and ends those of former leaders.

A master knows nothing of Connect: a leader that froze keeps its application and all of its cores.
So the name of an application says which Connect cluster's it is, and of which term. Requests to the
master take the connection on which Spark registers applications, so they work wherever Spark does.
The cores of each application are only on the master's page, which may not be reachable.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import httpx

_ALIVE: Final = "ALIVE"
_ANSWER_S: Final = 10
_PAGE_S: Final = 5.0
_DEPLOY: Final = "org.apache.spark.deploy"


@dataclass(frozen=True, slots=True)
class Tenure:
    """A leader's time. `cluster` names the Connect cluster; the same group id is used on more than
    one Kafka, and these may share a master."""

    cluster: str
    term: int

    def name_of(self, application: str) -> str:
        """Returns the name of this leader's application; `application` is what users call it."""
        return f"{application} ({self.cluster}, term {self.term})"

    def follows(self, name: str) -> bool:
        """Returns whether an application of this name is that of an earlier leader of this
        cluster."""
        match = re.search(rf"\({re.escape(self.cluster)}, term (\d+)\)$", name)
        return match is not None and int(match[1]) < self.term


@dataclass(frozen=True, slots=True)
class Application:
    """An application that is registered at the master. `most` is its `spark.cores.max`; `cores` is
    what it was granted, None if that is not known."""

    id: str
    name: str
    most: int | None = None
    cores: int | None = None

    @property
    def complete(self) -> bool:
        """Returns whether it has all the cores that it asked for."""
        return self.most is not None and self.cores is not None and self.cores >= self.most


@dataclass(frozen=True, slots=True)
class MasterState:
    """The answer of a master. `free` and `cores` are those of its living workers, None if the
    master's page cannot be read."""

    applications: tuple[Application, ...]
    cores: int | None = None
    free: int | None = None

    def application(self, id: str) -> Application | None:
        """Returns None if the master does not know it."""
        return next(
            (application for application in self.applications if application.id == id), None
        )

    def shortage(self, id: str) -> str | None:
        """Returns why an application has no executor; None if one is being started, or the master
        does not tell."""
        own = self.application(id)
        if own is None or own.cores != 0 or self.cores is None:
            return None
        if self.cores == 0:
            return "Spark's master has no living worker"
        refusal = f"Spark's master has granted none of its {self.cores} cores to this runtime"
        holders = [
            application
            for application in self.applications
            if application.cores and application.id != id
        ]
        if not holders:
            return (
                f"{refusal}, and {self.free} of them are free: no worker has as many cores and as "
                "much memory as one executor takes (spark.executor.cores, spark.executor.memory)"
            )
        holdings = ", ".join(
            f"{application.name} holds {application.cores} ({application.id})"
            for application in holders
        )
        return (
            f"{refusal}: {holdings}. Start more workers, or limit the other applications with "
            "spark.cores.max"
        )


class StandaloneMaster:
    """The master that a SparkContext is registered at. Each call blocks until the master and the
    JVM answer, as a rule for some seconds at most, and raises what Py4J raises, or OSError."""

    def __init__(self, url: str, context: Any) -> None:
        self._addresses = url.removeprefix("spark://").split(",")
        self._context = context
        # of the context's own application
        self.own_id = str(context.applicationId)

    def state(self) -> MasterState:
        """Asks the master that is active, if there are several."""
        host, master, answer = self._active()
        ports = self._ask(master, "master.MasterMessages$BoundPortsRequest$")
        page = _page(f"http://{host}:{ports.webUIPort()}/json/")
        granted = {entry["id"]: int(entry["cores"]) for entry in page.get("activeapps", ())}
        applications = tuple(
            Application(entry.id(), entry.desc().name(), _most(entry), granted.get(entry.id()))
            for entry in answer.activeApps()
        )
        if not page:
            return MasterState(applications)
        alive = [entry for entry in page.get("workers", ()) if entry["state"] == _ALIVE]
        cores, free = (sum(int(entry[key]) for entry in alive) for key in ("cores", "coresfree"))
        return MasterState(applications, cores, free)

    def end(self, application: str) -> None:
        """Ends an application: the master gives its cores to others at once, and has its executors
        ended. Its driver is not asked."""
        _, master, _ = self._active()
        master.send(self._class("DeployMessages$UnregisterApplication")(application))

    def _active(self) -> tuple[str, Any, Any]:
        """Returns the host of the active master, the way to it, and what it says."""
        failures = []
        for address in self._addresses:
            host, _, port = address.rpartition(":")
            try:
                master = self._endpoint(host, int(port))
                answer = self._ask(master, "DeployMessages$RequestMasterState$")
            except Exception as error:  # Py4J has many, and another master may be the active one
                failures.append(error)
                continue
            if answer.status().toString() == _ALIVE:
                return host, master, answer
        raise failures[0] if failures else OSError("Spark has no active master")

    def _endpoint(self, host: str, port: int) -> Any:
        backend = self._context._jsc.sc().schedulerBackend()  # noqa: SLF001
        address = self._context._jvm.org.apache.spark.rpc.RpcAddress(host, port)  # noqa: SLF001
        return backend.rpcEnv().setupEndpointRef(address, "Master")

    def _ask(self, master: Any, request: str) -> Any:
        jvm = self._context._jvm  # noqa: SLF001
        anything = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("java.lang.Object"))
        seconds = jvm.java.util.concurrent.TimeUnit.SECONDS
        duration = jvm.scala.concurrent.duration.FiniteDuration(_ANSWER_S, seconds)
        limit = jvm.org.apache.spark.rpc.RpcTimeout(duration, "the master's answer")
        return master.askSync(getattr(self._class(request), "MODULE$"), limit, anything)

    def _class(self, name: str) -> Any:
        *packages, last = f"{_DEPLOY}.{name}".split(".")
        package = self._context._jvm  # noqa: SLF001
        for name_part in (*packages, last):
            package = getattr(package, name_part)
        return package


def former_applications(state: MasterState, own: str, tenure: Tenure) -> Iterator[Application]:
    """Yields the applications of earlier leaders, unless this one has all that it asked for."""
    mine = state.application(own)
    if mine is not None and not mine.complete:
        yield from (
            application for application in state.applications if tenure.follows(application.name)
        )


def _most(application: Any) -> int | None:
    most = application.desc().maxCores()
    return int(most.get()) if most.isDefined() else None


def _page(url: str) -> dict[str, Any]:
    """Returns what the master's page says as JSON; nothing if it cannot be read. A reverse proxy, a
    firewall or a login may be in between."""
    try:
        answer = httpx.get(url, timeout=_PAGE_S, trust_env=False)
        content = answer.json() if answer.is_success else {}
    except (httpx.HTTPError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
