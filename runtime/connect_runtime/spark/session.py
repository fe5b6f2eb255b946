"""Starts and ends this process's only SparkContext, set up for long-running Python tasks.

Everything that Spark writes goes below one data folder: block files, its log and the output of
Python workers. Nothing goes to the terminal. Knows nothing of tasks.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shlex
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from pyspark import RDD, SparkConf, SparkContext
from pyspark.serializers import CPickleSerializer

from connect_runtime.class_archives import ClassArchive
from connect_runtime.files import make_private_folder
from connect_runtime.logs import log_output
from connect_runtime.logs.log_output import LogFormat
from connect_runtime.spark import attempts
from connect_runtime.spark.daemon import DRIVER_PYTHON
from connect_runtime.spark.jvm import Jvm, JvmFigures, jars_folder, jvm_figures
from connect_runtime.spark.master import StandaloneMaster, Tenure
from connect_runtime.waiting import wait_until

_log = logging.getLogger(__name__)

# A JVM without a SparkContext by then is killed. Some clusters keep an application waiting for
# minutes.
_START_S = 600.0
_STOP_S = 5.0
_NOTED_S: Final = 5.0
_POLL_S: Final = 0.05
_UNKNOWN: Final = "unknown"
# The executor's Python is killed so long after its task, so that the newest attempt need not wait.
_KILL_TIMEOUT = "100ms"
# The C1 compiler alone starts faster; tasks run in Python. The heap with which Java begins on a
# large machine would be filled before anything is collected.
JAVA_FLAGS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xms32m")
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_PYTHON = "spark.pyspark.python"
_NAME: Final = "spark.app.name"
_EXECUTOR_ENV = "spark.executorEnv."
_AUTHENTICATE: Final = "spark.authenticate"
_SECRET: Final = "spark.authenticate.secret"
_SECURED: Final = {_AUTHENTICATE: "true", "spark.network.crypto.enabled": "true"}
# heartbeats are most of the cost of an idle executor, and this process sees its own end anyway
_OF_THIS_MACHINE: Final = {"spark.executor.heartbeatInterval": "60s"}
# An executor that froze or is cut off closes no connection. Its tasks are lost after 10 s, not
# after Spark's five minutes, looked for each second.
_OF_CLUSTERS: Final = {
    "spark.executor.heartbeatInterval": "2s",
    "spark.storage.blockManagerHeartbeatTimeoutMs": "10s",
    "spark.network.timeoutInterval": "1s",
}
_LOG4J = """\
rootLogger.level=warn
rootLogger.appenderRef.err.ref=err
appender.err.type=Console
appender.err.name=err
appender.err.target=SYSTEM_ERR
appender.err.layout.type=PatternLayout
appender.err.layout.pattern=@PATTERN@
appender.err.layout.alwaysWriteExceptions=false
logger.native.name=org.apache.hadoop.util.NativeCodeLoader
logger.native.level=error
"""
_PATTERNS: Final = {
    LogFormat.TEXT: "%d %p %m (%c{1})%n%xEx",
    LogFormat.JSON: (
        """{"time":"%d{yyyy-MM-dd'T'HH:mm:ss.SSS'Z'}{UTC}","level":"%p","logger":"%c","""
        """"message":"%enc{%m}{JSON}"%notEmpty{,"exception":"%enc{%xEx}{JSON}"}}%n"""
    ),
}


class SparkSession:
    """A SparkContext and its JVM. At most one at a time in a process."""

    def __init__(
        self,
        master: str,
        data_folder: Path,
        run: Callable[[Iterable[Any]], Iterable[Any]],
        settings: Mapping[str, str] | None = None,
        tenure: Tenure | None = None,
    ) -> None:
        """Creates the session's folder and its launch key. Each job calls `run` once.
        `settings` override ours. `tenure`: of the leader that it is for. Raises OSError, or
        Unreadable for a key file without a key."""
        # it logs every connection that it closes
        logging.getLogger("py4j").setLevel(logging.WARNING)
        settings = settings or {}
        key_file = settings.get(_EXECUTOR_ENV + attempts.SECRET_FILE)
        self.key = attempts.new_key() if key_file is None else attempts.key_in(Path(key_file))
        self._key_travels = key_file is None
        self.local = is_local(master)
        self.tenure = tenure
        # of an open session; None where another cluster manager, or this machine, runs tasks
        self.master: StandaloneMaster | None = None
        self._url = master
        self.log = log_file(data_folder)
        self._files = _Folder(self.log.parent)
        self._settings = _settings(master, self._files.path, settings)
        if tenure is not None:
            self._settings[_NAME] = tenure.name_of(self._settings[_NAME])
        self._lock = threading.Lock()
        self._closing = False
        self._jvm: Jvm | None = None
        self._run = run
        self._anywhere: Any = None
        self._context: Any = None

    @property
    def context(self) -> Any:
        """Returns the SparkContext; None until it is open."""
        return self._context

    @property
    def leases(self) -> Path:
        """Returns the folder of attempts' leases."""
        return self._files.path / "leases"

    def open(self) -> None:
        """Starts a JVM and a SparkContext; takes seconds. Raises what Spark raises, and Failed."""
        _set_environment(self.local, self._settings.get(_PYTHON, sys.executable))
        secret = {attempts.SECRET: self.key} if self._key_travels else {}
        with self._lock:
            if self._closing:
                raise RuntimeError("Spark was closed while it started")
            of_jvm = secret if self.local else {}
            self._jvm = Jvm(self._settings, self._files.path, self.log, of_jvm)
        late = threading.Timer(_START_S, self._jvm.kill)
        late.daemon = True
        late.start()
        try:
            gateway = self._jvm.connect()
            conf = SparkConf(loadDefaults=False)
            for name, value in self._settings.items():
                conf.set(name, value)
            for name, value in ({} if self.local else secret).items():
                conf.set(_EXECUTOR_ENV + name, value)
            context = SparkContext(conf=conf, gateway=gateway)
            # Executors get it from the conf; PySpark would also put it next to each launch.
            context.environment.pop(attempts.SECRET, None)
            # coalesce makes it in the JVM at once; else several first attempts would each make it
            self._anywhere = context.parallelize([None], 1).mapPartitions(self._run).coalesce(1)
            if self._url.startswith("spark://"):
                self.master = StandaloneMaster(self._url, context)
            self._context = context
            if context.getConf().get(_AUTHENTICATE, "false") != "true":
                _log.warning(
                    "Spark's connections are neither authenticated nor encrypted: give the master, "
                    "its workers and this runtime a secret (docs/spark-cluster.md)"
                )
        finally:
            late.cancel()

    @property
    def alive(self) -> bool:
        """Returns whether the JVM still runs. Never blocks."""
        return self._jvm is not None and self._jvm.alive

    def slots(self) -> int | None:
        """Returns how many tasks can run at once on the current executors; None if the context was
        stopped. Calls the JVM, and blocks until it answers."""
        spark = self._context._jsc.sc()  # noqa: SLF001
        if spark.isStopped():
            return None
        profile = spark.resourceProfileManager().defaultResourceProfile()
        return int(spark.maxNumConcurrentTasks(profile))

    def job(self, hosts: Collection[str] = ()) -> Any:
        """Returns an RDD that calls `run` when it is collected: on one of these hosts, if one of
        them has a free slot within `spark.locality.wait`. Without hosts it derives from an RDD that
        all jobs share, which takes two calls to the JVM instead of twenty."""
        if hosts:
            return self._placed(hosts).mapPartitions(self._run)
        # not the shared one itself: when a job fails, Spark ends all others on its RDD
        return self._anywhere.coalesce(1)

    def _placed(self, hosts: Collection[str]) -> RDD[Any]:
        jvm = self._context._jvm  # noqa: SLF001
        serializer = CPickleSerializer()
        placed = jvm.scala.Tuple2(serializer.dumps(None), jvm.PythonUtils.toSeq(list(hosts)))
        of_bytes = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("[B"))
        spark = self._context._jsc.sc()  # noqa: SLF001
        rdd = spark.makeRDD(jvm.PythonUtils.toSeq([placed]), of_bytes)
        return RDD(rdd.toJavaRDD(), self._context, serializer)

    def hosts(self) -> frozenset[str]:
        """Returns the hosts that have executors. Blocks until the JVM answers."""
        executors = self._status_store().executorList(True)
        entries = (executors.apply(number) for number in range(executors.size()))
        return frozenset(e.hostPort().rpartition(":")[0] for e in entries if e.id() != "driver")

    def host_of(self, group: str) -> str | None:
        """Returns the host on which the newest task of a job group ran; None if none did. Blocks
        until the JVM answers."""
        newest = self._newest_task(group)
        return None if newest is None else str(newest.host())

    def waits_again(self, group: str) -> bool:
        """Returns whether the newest task of a job group has ended, and its job has not: Spark
        wants to run it once more. Blocks until the JVM answers."""
        newest = self._newest_task(group)
        return newest is not None and str(newest.status()) in ("FAILED", "KILLED")

    def _newest_task(self, group: str) -> Any:
        tracker = self._context.statusTracker()
        jobs = tracker.getJobIdsForGroup(group)
        job = tracker.getJobInfo(max(jobs)) if jobs else None
        if job is None or not job.stageIds:
            return None
        tasks = self._status_store().taskList(max(job.stageIds), 0, 1)
        return tasks.apply(0) if tasks.size() else None

    def _status_store(self) -> Any:
        return self._context._jsc.sc().statusStore()  # noqa: SLF001

    def jvm_figures(self) -> JvmFigures:
        """Calls the JVM, and blocks until it answers."""
        return jvm_figures(self._context._jvm)  # noqa: SLF001

    def cancel(self, group: str) -> None:
        """Cancels the jobs of a group, including those about to be submitted, which Python's own
        call misses. Blocks until the JVM answers."""
        self._context._jsc.sc().cancelJobGroupAndFutureJobs(group)  # noqa: SLF001

    def kill(self) -> None:
        """Kills the JVM, even while it starts; it is not restarted."""
        with self._lock:
            self._closing = True
            if self._jvm is not None:
                self._jvm.kill()

    def close(self, patience_s: float = _STOP_S) -> None:
        """Ends the context and the JVM, within a bounded time, even if the JVM is gone or does not
        answer: `patience_s` each, then it is killed. Removes Spark's files from the disk."""
        if self._jvm is not None:
            stopping = threading.Thread(target=self._stop, name="spark-stop", daemon=True)
            stopping.start()
            stopping.join(patience_s)
            self._jvm.end(patience_s)
            # it clears the active context when it is done, which must not be the next one
            stopping.join(patience_s)
        # A dead JVM's context would stay registered and prevent the next one.
        with SparkContext._lock:  # noqa: SLF001
            SparkContext._active_spark_context = None  # noqa: SLF001
        self._files.remove()

    def _stop(self) -> None:
        if self._context is not None and self.alive:
            with contextlib.suppress(Exception):
                self._context.stop()


class _Folder:
    """A folder of one session, locked while its driver lives, below one that runtimes may share."""

    def __init__(self, parent: Path) -> None:
        make_private_folder(parent)
        guard = os.open(parent, os.O_RDONLY)
        try:
            # a folder that is created but not yet locked must not look like a dead session's
            fcntl.flock(guard, fcntl.LOCK_EX)
            for session_folder in parent.glob("session-*"):
                _remove_unlocked(session_folder)
            self.path = Path(tempfile.mkdtemp(prefix="session-", dir=parent)).resolve()
            self._lock = os.open(self.path, os.O_RDONLY)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        finally:
            os.close(guard)
        for name in ("local", "leases"):
            make_private_folder(self.path / name)
        (self.path / "log4j2.properties").write_text(
            _LOG4J.replace("@PATTERN@", _PATTERNS[log_output.chosen()])
        )

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _remove_unlocked(folder: Path) -> None:
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        return  # its owner has just removed it
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    else:
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(descriptor)


def node_of(session: SparkSession, group: str) -> str:
    """Returns the host that an attempt ran on, to be shown; "unknown" without an answer of a JVM
    that is dying."""
    try:
        # Spark notes where a job ran a moment after it has failed
        host = wait_until(lambda: session.host_of(group), _NOTED_S, every_s=_POLL_S)
    except Exception:
        _log.debug("It is not known where %s ran", group, exc_info=True)
        return _UNKNOWN
    return host or _UNKNOWN


def other_hosts(session: SparkSession, host: str) -> Collection[str]:
    """Returns the hosts with executors but this one."""
    try:
        return session.hosts() - {host} if host != _UNKNOWN else ()
    except Exception:
        _log.debug("It is not known which nodes there are", exc_info=True)
        return ()


def is_retried(session: SparkSession, group: str) -> bool:
    """Returns whether an attempt has ended, and Spark wants to run it once more."""
    try:
        return session.waits_again(group)
    except Exception:
        _log.debug("It is not known whether %s runs", group, exc_info=True)
        return False


def class_archive() -> ClassArchive:
    """Returns the archive of the driver's classes, made or not."""
    return ClassArchive("spark", (jars_folder(),))


def log_file(data_folder: Path) -> Path:
    """Returns the log file of the JVM, Spark and Python workers."""
    return data_folder.resolve() / "spark" / "spark.log"


def is_local(master: str) -> bool:
    """Returns whether all executors run on this machine, in the driver's JVM."""
    return master == "local" or master.startswith("local[")


def _set_environment(local: bool, python: str) -> None:
    """Sets what Spark reads from the environment only. `python` is that of executors."""
    # unset, it is the `python3` on PATH, which may lack this package
    os.environ["PYSPARK_PYTHON"], os.environ["PYSPARK_DRIVER_PYTHON"] = python, sys.executable
    # a job's group and properties belong to a thread of the JVM, which is to be the attempt's own
    os.environ["PYSPARK_PIN_THREAD"] = "true"
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _settings(master: str, folder: Path, overrides: Mapping[str, str]) -> dict[str, str]:
    log4j = f"-Dlog4j2.configurationFile={(folder / 'log4j2.properties').as_uri()}"
    defaults = {
        JAVA_OPTIONS: shlex.join([*JAVA_FLAGS, *class_archive().flags(), log4j]),
        "spark.network.timeout": "300s",
        f"{_EXECUTOR_ENV}{DRIVER_PYTHON}": "{}.{}".format(*sys.version_info),
        "spark.executorEnv.PYTHONSAFEPATH": "1",
        f"{_EXECUTOR_ENV}{log_output.VARIABLE}": log_output.chosen().value,
        "spark.local.dir": str(folder / "local"),
        # else one thread for each slot
        "spark.rpc.netty.dispatcher.numThreads": "4",
        "spark.python.daemon.module": "connect_runtime.spark.daemon",
        "spark.python.task.killTimeout": _KILL_TIMEOUT,
        # every attempt in its own process, without leftovers of earlier ones
        "spark.python.worker.reuse": "false",
        "spark.speculation": "false",
        # the herder relaunches, under a new attempt number; Spark never does
        "spark.task.maxFailures": "1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    heartbeats = _OF_THIS_MACHINE if is_local(master) else _OF_CLUSTERS
    # Spark makes a secret for each application, but a standalone master shares one with all of its
    makes_secret = is_local(master) or master == "yarn" or master.startswith("k8s://")
    secured = _SECURED if makes_secret or _SECRET in overrides else {}
    own = {"spark.master": master, _NAME: "connect"}
    return own | defaults | heartbeats | secured | dict(overrides)
