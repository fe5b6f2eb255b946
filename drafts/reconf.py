"""reconf.py [label...]: reconfiguration of 10 exactly-once tasks; CPU per process kind, timeline of log"""
import sys, os, time, tempfile, shutil, signal, collections
signal.signal(signal.SIGTERM, lambda *a: sys.exit(1))
from pathlib import Path
sys.path[:0] = [os.getcwd(), "tests"]
from benchmarks import worker
from benchmarks.java_tasks import _reading, _wait_for_keys, _COUNTING
from benchmarks.topics import make_topic
from connect_runtime.kafka.embedded import EmbeddedBroker
from support.java_plugins import make_jar
def kinds(w):
    out = {}
    for pid, t in w.cpu_times().items():
        try: cmd = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError: continue
        k = "engine" if b"connect.engine.Engine" in cmd else "spark" if b"SparkSubmit" in cmd else "python" if b"python" in cmd[:200] else "other"
        out[pid] = (k, t)
    return out
n = int(os.environ.get("TASKS", 10)); reps = int(os.environ.get("REPS", 2))
opts = dict(a.split("=", 1) for a in sys.argv[1:] if "=" in a); labels = [a.partition("=")[0] for a in sys.argv[1:]]
folder = Path(tempfile.mkdtemp(prefix="cv-")); broker = EmbeddedBroker.start(folder/"broker"); ws = []
try:
    pp = folder/"plugins"; jar = pp/"counting"/"counting.jar"; jar.parent.mkdir(parents=True)
    make_jar(_COUNTING, {"org.apache.kafka.connect.source.SourceConnector": "tests.Counting"}, jar)
    for label in labels:
        s = {"plugin.path": str(pp), "java.file.connectors": "true"}
        if label in opts: s["java.jvm.options"] = opts[label]
        w = worker.start("apache" if label.startswith("apache") else "ours", folder/label, broker.bootstrap_servers, f"g{label}", settings=s); ws.append(w)
        cfg = lambda t: {"name": "c", "connector.class": "tests.Counting", "tasks.max": str(n), "topic": t}
        topics = [f"{label}-t{i}" for i in range(reps+1)]
        for t in topics: make_topic(w.bootstrap, t)
        t0 = time.monotonic(); w.call("POST", "/connectors", {"name": "c", "config": cfg(topics[0])})
        def running():
            st = w.statuses().get("c", {"tasks": []}); return [t["state"] for t in st["tasks"]] == ["RUNNING"]*n
        worker.wait_for(running, "run", 180, .02); print(f"{label}: first start {time.monotonic()-t0:.2f} s", flush=True)
        time.sleep(5)
        for t in topics[1:]:
            b = kinds(w); t0 = time.monotonic()
            with _reading(w.bootstrap, t) as r:
                w.call("PUT", "/connectors/c/config", cfg(t)); keys=set(); marks=[]
                dl = time.monotonic()+180
                last = {}
                while len(keys) < n and time.monotonic() < dl:
                    for m in r.consume(1000, .05):
                        if not m.error() and m.key() not in keys: keys.add(m.key()); marks.append(round(time.monotonic()-t0,2))
                    last.update(kinds(w))
            took = time.monotonic()-t0
            agg = collections.Counter(); cnt = collections.Counter()
            for pid,(k,c) in last.items():
                name = k if pid in b else "new "+k
                d = c - b.get(pid,(k,0))[1]; agg[name] += d; cnt[name]+=1
            print(f"{label}: {took:.2f} s; CPU " + ", ".join(f"{k}×{cnt[k]} {v:.2f}" for k,v in agg.most_common()), " first records", marks, flush=True)
            time.sleep(4)
        w.call("DELETE", "/connectors/c"); shutil.copy(folder/label/"worker.log", f"build/reconf-{label}.log"); w.close()
finally:
    for w in ws:
        if w.process.poll() is None: w.close()
    broker.stop(); shutil.rmtree(folder, ignore_errors=True)
