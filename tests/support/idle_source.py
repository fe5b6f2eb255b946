"""A source for Apache's workers that has no tasks, as one that has not found its tables yet.

Compiled when a test asks for it; none of the connectors that come with Kafka does without tasks.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from support.connect_jars import worker_classpath

CLASS = "idle.IdleSource"
_SOURCE = """\
package idle;

import java.util.*;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.source.*;

public class IdleSource extends SourceConnector {
    public void start(Map<String, String> config) {}
    public Class<? extends Task> taskClass() { return IdleTask.class; }
    public List<Map<String, String>> taskConfigs(int most) { return List.of(); }
    public void stop() {}
    public ConfigDef config() { return new ConfigDef(); }
    public String version() { return "1"; }

    public static class IdleTask extends SourceTask {
        public void start(Map<String, String> config) {}
        public List<SourceRecord> poll() { return null; }
        public void stop() {}
        public String version() { return "1"; }
    }
}
"""


def install(plugins: Path, version: str) -> None:
    """Puts it into a worker's plugin folder. Skips the test where Java cannot be compiled."""
    compiler = shutil.which("javac")
    if compiler is None:
        pytest.skip("there is no javac")
    folder = plugins / "idle"
    services = folder / "META-INF" / "services"
    services.mkdir(parents=True)
    (services / "org.apache.kafka.connect.source.SourceConnector").write_text(f"{CLASS}\n")
    source = folder / "IdleSource.java"
    source.write_text(_SOURCE)
    command = [compiler, "-cp", worker_classpath(version), "-d", str(folder), str(source)]
    subprocess.run(command, check=True, timeout=120)
