"""Starts and stops a runtime: REST, a herder and Spark in this process, in order.

REST answers first, with 503; Spark starts while the topics are read. On stop, tasks drain before
Spark ends, and REST, again with 503, ends last.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit

from starlette.types import ASGIApp

from connect_runtime.config_providers.registry import ConfigProviders
from connect_runtime.engine.catalog import java_plugins, used_catalog
from connect_runtime.engine.java_loggers import share_levels
from connect_runtime.engine.jvm import running_jvms
from connect_runtime.engine.plugin_path import has_java_plugins
from connect_runtime.herder.connect_cluster import ConnectCluster
from connect_runtime.herder.launcher import WorkerSettings
from connect_runtime.herder.verbs import RequestError
from connect_runtime.herder.view import View
from connect_runtime.joining import LeaderLookup, find_cluster, find_kafka, join_topics
from connect_runtime.kafka.election import Election
from connect_runtime.kafka.groups import SinkGroups
from connect_runtime.kafka.log import KafkaLogs
from connect_runtime.kafka.topics import TopicsWatch
from connect_runtime.logs.log_output import process_is_about
from connect_runtime.metrics.jvm_metrics import samples_of
from connect_runtime.metrics.page import Observed, page
from connect_runtime.plugins.modules import allow_modules
from connect_runtime.rest.app import Served, create_app
from connect_runtime.rest.http_server import BoundSocket, RestServer
from connect_runtime.rest.password import Logins, make_password, users_file
from connect_runtime.rest.plugin_resources import PluginResources
from connect_runtime.rest.rest_settings import Listener
from connect_runtime.rest.tls import (
    ADMIN_LISTENERS,
    LISTENERS,
    client_context,
    renewed_context,
)
from connect_runtime.settings.executor_memory import overhead_problem
from connect_runtime.settings.jvm_options import start_variables, with_start_variables
from connect_runtime.settings.worker_config import WorkerConfig
from connect_runtime.spark.launcher import SparkLauncher
from connect_runtime.standalone.alone import Alone
from connect_runtime.standalone.connectors import check_connectors, create_connectors
from connect_runtime.standalone.logs import StandaloneLogs
from connect_runtime.standalone.server import TopicsServer
from connect_runtime.storage.offset_file import OffsetFile
from connect_runtime.tasks.launch import exactly_once
from connect_runtime.validation.infos import unresolved_references
from connect_runtime.validation.validate import check, check_worker_converters
from connect_specs.worker_files import FirstConnector

_log = logging.getLogger(__name__)

# As long as a change of a sink's offsets waits for its group (kafka/groups)
_LEAVING_S = 5.0
# In which a task of a former leader reads that it is to end, and writes that it has ended
_REPORT_S = 10.0


class Runtime:
    """One runtime between `start` and `stop`. `connectors` are created before REST serves.
    `scanning` is entered while Java plugins are looked for, which can take minutes."""

    def __init__(
        self,
        config: WorkerConfig,
        connectors: Sequence[FirstConnector] = (),
        scanning: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> None:
        allow_modules(config.properties)
        self._config = config
        self._connectors = connectors
        self._scanning = scanning
        self._providers = ConfigProviders(config.properties)
        self._cluster_id = ""
        self._url: str | None = None
        self._connect: ConnectCluster | None = None
        self._launcher: SparkLauncher | None = None
        self._logins = Logins(config.data_folder)
        self._serving = False
        self._closing = contextlib.ExitStack()

    @property
    def url(self) -> str:
        """Returns REST's advertised address; only once started."""
        assert self._url is not None, "the runtime was not started"
        return self._url

    @property
    def verbs(self) -> ConnectCluster:
        """Returns the herder's verbs; only once started."""
        assert self._connect is not None, "the runtime was not started"
        return self._connect

    def start(self) -> None:
        """Returns when the runtime takes part in its cluster; once `verbs.ready()`, it is healthy.
        Raises Unreachable or Failed, after stopping what it had started."""
        try:
            with contextlib.ExitStack() as closing:
                self._start(closing)
                self._closing = closing.pop_all()
        except BaseException:
            self._connect = None
            raise

    def stop(self) -> None:
        """Stops everything in order and within a bounded time. May be called twice."""
        # a stopped herder answers no requests
        self._serving = False
        self._closing.close()

    def _start(self, closing: contextlib.ExitStack) -> None:
        config = self._config
        if not has_java_plugins(config.properties):
            check_worker_converters(config)
        if config.rest.login:
            make_password(config.data_folder)
        if config.rest.users:
            self._logins = Logins(config.data_folder, users_file(os.environ))
        self._url = self._serve(closing)
        if config.offset_file is None:
            connect = self._on_kafka(closing)
        else:
            connect = self._standalone(closing, config.offset_file)
        connect.start()
        closing.callback(connect.close)
        self._connect = connect
        create_connectors(self._connectors, connect)
        self._serving = True

    def _serve(self, closing: contextlib.ExitStack) -> str:
        """Starts REST on each listener; returns the address that is advertised."""
        config = self._config
        admin = config.rest.admin
        regular = Served.ALL if admin is None else Served.REGULAR
        serving = [
            *((listener, regular, LISTENERS) for listener in config.listeners),
            *((listener, Served.ADMIN, ADMIN_LISTENERS) for listener in admin or ()),
        ]
        # settings are wrong before a port is in use
        contexts = [
            renewed_context(config.tls, prefix) if listener.scheme == "https" else None
            for listener, _, prefix in serving
        ]
        sockets = []
        for listener, _, _ in serving:
            sockets.append(BoundSocket.at(listener.host, listener.port))
            closing.callback(sockets[-1].close)
        url = config.url(sockets[config.listeners.index(config.listener)].port)
        process_is_about(worker=urlsplit(url).netloc)
        for socket, (listener, serves, _), tls in zip(sockets, serving, contexts, strict=True):
            server = RestServer(self._app(listener, serves), socket, tls=tls)
            server.start()
            closing.callback(server.stop)
        return url

    def _on_kafka(self, closing: contextlib.ExitStack) -> ConnectCluster:
        """Returns a herder of a cluster, whose topics are in Kafka."""
        config = self._config
        self._cluster_id = find_cluster(config)
        self._find_java_plugins(closing)
        logs = KafkaLogs(config.client)
        closing.callback(logs.close)
        launcher = self._start_launcher(closing)
        join_topics(config, logs)
        topic = config.topics.config
        watch = TopicsWatch(config.client, config.topics)
        watch.start()
        closing.callback(watch.close)
        return ConnectCluster(
            self.url,
            self._settings(),
            logs=logs,
            groups=SinkGroups(),
            election=Election(config.client, config.group_id, topic, self.url),
            launcher=launcher,
            check=self._check,
            leader=LeaderLookup(config.client, config.group_id, topic),
            topics_problem=lambda: watch.problem,
            topics_degraded=lambda: watch.degraded,
            providers=self._providers,
        )

    def _find_java_plugins(self, closing: contextlib.ExitStack) -> None:
        """Makes the Java plugins on plugin.path usable, among them converters of the worker."""
        properties = self._config.properties
        if not has_java_plugins(properties):
            return
        properties = self._with_start_variables()
        problem = overhead_problem(self._config.master, properties)
        if problem is not None:
            _log.warning("%s", problem)
        share_levels(self._levels_file)
        with self._scanning():
            netloc = urlsplit(self.url).netloc
            closing.enter_context(java_plugins(properties, netloc, self._providers, anew=True))
        catalog = used_catalog()
        if catalog is not None and catalog.plugins:
            check_worker_converters(self._config)

    def _with_start_variables(self) -> Mapping[str, str]:
        """Returns the worker's properties with what variables of Apache's start script mean for
        JVMs; the log says which have no effect."""
        variables = start_variables(os.environ)
        for sentence in variables.sentences:
            _log.warning("%s", sentence)
        properties = with_start_variables(self._config.properties, variables)
        self._config = replace(self._config, properties=properties)
        return properties

    def _standalone(self, closing: contextlib.ExitStack, file: Path) -> ConnectCluster:
        """Returns a herder that is alone, whose topics are here."""
        config = self._config
        offsets = OffsetFile.open(file)
        closing.callback(offsets.close)
        self._cluster_id = find_kafka(config)
        self._find_java_plugins(closing)
        check_connectors(self._connectors, config)
        logs = StandaloneLogs(config.topics, offsets, self._cluster_id)
        launcher = self._start_launcher(closing)
        server = TopicsServer(logs, config.topics)
        # after the tasks' last commits, and before the lock on the file is released
        closing.callback(server.close)
        return ConnectCluster(
            self.url,
            self._settings(server.path),
            logs=logs,
            groups=SinkGroups(),
            election=Alone(),
            launcher=launcher,
            check=self._check,
            leader=lambda: None,
            topics_problem=lambda: logs.problem,
            providers=self._providers,
        )

    def _start_launcher(self, closing: contextlib.ExitStack) -> SparkLauncher:
        config = self._config
        closing.callback(self._providers.close)
        launcher = SparkLauncher(
            config.master,
            config.data_folder,
            settings=config.spark,
            cluster=f"group {config.group_id}, Kafka {self._cluster_id}",
            executors_s=config.executor_start_s,
            patience_s=patience_s(config),
        )
        launcher.start()
        closing.callback(launcher.close)
        self._launcher = launcher
        return launcher

    def _settings(self, socket: str | None = None) -> WorkerSettings:
        config = self._config
        return WorkerSettings(
            group_id=config.group_id,
            topics=config.topics,
            worker_id=urlsplit(self.url).netloc,
            properties=config.properties,
            graceful_s=config.graceful_timeout_ms / 1000,
            socket=socket,
            leaving_s=_LEAVING_S,
            logger_levels=None if used_catalog() is None else str(self._levels_file),
        )

    @property
    def _levels_file(self) -> Path:
        return self._config.data_folder.resolve() / "java-loggers.json"

    def _check(self, name: str, config: Mapping[str, str | None]) -> None:
        """Refuses an invalid config; logs the references of a valid one that have no value."""
        check(config, self._config, self._providers)
        texts = {key: value for key, value in config.items() if value is not None}
        for problem in unresolved_references(texts, self._config.properties):
            _log.warning("Connector %s: %s", name, problem, extra={"connector": name})

    def _app(self, listener: Listener, serves: Served) -> ASGIApp:
        return create_app(
            lambda: self._connect if self._serving else None,
            PluginResources(self._config, self._providers).routes(),
            cluster_id=self._known_cluster_id,
            commit=f"connect-reconciler-{version('connect-reconciler')}",
            settings=self._config.rest.at(listener),
            admits=self._logins.admits,
            metrics=self._metrics,
            serves=serves,
            tls=lambda: client_context(self._config.tls),
        )

    def _metrics(self) -> str:
        """Returns the page; while this runtime starts or ends, it has no connectors and no
        leader."""
        connect, launcher = self._connect, self._launcher
        if connect is None or launcher is None or not self._serving:
            return page(Observed(View(), leading=False, leader=None))
        runtime = connect.runtime()
        return page(
            Observed(
                connect.herder.view,
                leading=runtime.leading,
                leader=runtime.leader,
                readings=launcher.readings() if runtime.leading else {},
                jvm=launcher.jvm,
                samples=samples_of(running_jvms()),
            )
        )

    def _known_cluster_id(self) -> str:
        if not self._cluster_id:
            raise RequestError(503, "Worker is still starting up.")
        return self._cluster_id


def patience_s(config: WorkerConfig) -> float:
    """Returns how long tasks of a former leader may take to end by themselves, before their Spark
    application is ended. If nothing fences them, their successors need to read that they have."""
    if exactly_once(config.properties):
        return 0.0
    return config.graceful_timeout_ms / 1000 + _REPORT_S
