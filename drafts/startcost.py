"""startcost.py [n] [jvm options...]: CPU and wall of steps of a task JVM's start, n times; then m at once"""
import sys, os, time, tempfile, threading, shutil
from pathlib import Path
sys.path[:0] = [os.getcwd(), "tests"]
from connect_runtime.kafka.embedded import EmbeddedBroker
from connect_runtime.engine.jvm import PluginJvm
from connect_runtime.settings.jvm_options import jvm_options
from connect_runtime.engine import engine_jar
from support.java_plugins import make_jar
import signal; signal.signal(signal.SIGTERM, lambda *a: sys.exit(1))
HZ = os.sysconf("SC_CLK_TCK")
def cpu(pid):
    f = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()
    return (int(f[11])+int(f[12]))/HZ
def sched(pid):
    tot={}
    for t in os.listdir(f"/proc/{pid}/task"):
        try:
            name=open(f"/proc/{pid}/task/{t}/comm").read().strip(); ns=int(open(f"/proc/{pid}/task/{t}/schedstat").read().split()[0])
        except OSError: continue
        tot[name]=tot.get(name,0)+ns/1e9
    return tot
n = int(sys.argv[1]); opts = sys.argv[2:]
print("archive", [o for o in engine_jar.class_archive().flags() if "File" in o])
folder = Path(tempfile.mkdtemp(prefix="cv-"))
ext = os.environ.get("BOOT")
broker = None if ext else EmbeddedBroker.start(folder/"broker")
boot = ext or broker.bootstrap_servers
try:
    pp = folder/"plugins"; jar = pp/"counting"/"counting.jar"; jar.parent.mkdir(parents=True)
    make_jar(Path("tests/runtime/engine/plugins/Counting.java"), {"org.apache.kafka.connect.source.SourceConnector": "tests.Counting"}, jar)
    conv = "org.apache.kafka.connect.storage.StringConverter"
    def one(i, report=True):
        w = {"bootstrap.servers": boot, "group.id": f"g{i}", "offset.storage.replication.factor": "1", "plugin.discovery": "service_load", "plugin.path": str(pp),
             "key.converter": conv, "value.converter": conv, **{f"{k}.storage.topic": f"any-{k}" for k in ("config","offset","status")}}
        ev = threading.Event(); times = []
        def on(e, f):
            if e in ("task-running", "task-failed"):
                if e == "task-failed": print(f["failure"]["trace"][:600])
                ev.set()
        t0 = time.monotonic()
        jvm = PluginJvm(w, "any:1", on_event=on, answers={"is-newest": lambda f: True}, options=(*jvm_options(w), *opts), watched=True)
        def step(name): times.append((name, time.monotonic()-t0, cpu(jvm.pid)))
        cfg = {"name": f"c{i}", "connector.class": "tests.Counting", "topic": f"t", "number": "1"}
        jvm.call("loggers", 60); step("up")
        jvm.call("plugins", 60); step("scan")
        if os.environ.get("NOFENCE") is None:
            jvm.call("fence", 60, config=cfg, ids=[f"g{i}-c{i}-0"]); step("fence")
        jvm.call("start-task", 60, attempt={"connector": f"c{i}", "task": 0, "attempt": 1, "count": 1, "connectorConfig": cfg, "taskConfig": {**cfg, "task.class": "tests.Counting$Counter"}, "exactlyOnce": True, "paused": False, "tail": {"rows": [], "positions": {}}}); step("start-task")
        ev.wait(60); step("running")
        th = sched(jvm.pid)
        time.sleep(1.0); step("+1s")
        ts = time.monotonic(); jvm.call("stop-task", 30, connector=f"c{i}", task=0); step("stopped")
        if os.environ.get("EXIT"):
            try: jvm.call("exit", 20)
            except Exception: pass
            jvm.end(20)
        jvm.end()
        if report:
            print("  ".join(f"{a} {b:.2f}/{c:.2f}" for a,b,c in times), flush=True)
            print("     ", ", ".join(f"{k} {v:.2f}" for k,v in sorted(th.items(), key=lambda x:-x[1])[:9]))
        return times
    for i in range(n): one(i)
    if os.environ.get("MANY"):
        m = int(os.environ["MANY"]); t0=time.monotonic(); res=[None]*m
        ths=[threading.Thread(target=lambda k=k: res.__setitem__(k, one(100+k, False))) for k in range(m)]
        [t.start() for t in ths]; [t.join() for t in ths]
        run=[next(b for a,b,c in r if a=="running") for r in res]; c=[next(c for a,b,c in r if a=="running") for r in res]
        print(f"{m} at once: all running after {max(run):.2f} s; CPU mean {sum(c)/m:.2f}")
finally:
    if broker: broker.stop()
    shutil.rmtree(folder, ignore_errors=True)
