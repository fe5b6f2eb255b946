"""prof.py WORK[,WORK] labels scale repeats : per-thread CPU of workers."""
import sys, os, re, time, tempfile, shutil, collections
from pathlib import Path
from contextlib import ExitStack
sys.path[:0] = [os.getcwd(), "tests"]
from benchmarks import worker
from benchmarks.worker import Worker, APACHE_OPTIONS
from benchmarks.inputs import Inputs
from benchmarks.java_transfers import WORKS, Site, make_plugin_path
from connect_runtime.kafka.embedded import EmbeddedBroker
from support.postgres import postgres
import signal; signal.signal(signal.SIGTERM, lambda *a: sys.exit(1))
HZ = os.sysconf("SC_CLK_TCK")
def threads(w):
    out = {}
    for pid in w.cpu_times():
        try: cmd = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError: continue
        main = next((c.decode() for c in cmd if c.startswith((b"connect.", b"org.apache."))), os.path.basename(cmd[0].decode()))
        for t in Path(f"/proc/{pid}/task").iterdir():
            try:
                s = (t/"stat").read_text()
            except OSError: continue
            name = s[s.index("(")+1:s.rindex(")")]
            f = s.rpartition(")")[2].split()
            out[(pid, main, t.name)] = (name, (int(f[11])+int(f[12]))/HZ)
    return out
BEFORE = {}
orig_times, orig_since = Worker.cpu_times, Worker.cpu_since
def since(self, before):
    total = orig_since(self, before)
    b = BEFORE.get(self.url, {}); now = threads(self)
    agg = collections.Counter(); procs = collections.Counter()
    for k,(name,cpu) in now.items():
        d = cpu - b.get(k, (name,0.0))[1]
        if d > 0:
            name = re.sub(r"[-\d#]+.*$", "", name) if not name.startswith(("C1","C2","G1")) else name[:4]
            agg[(k[0], k[1].rpartition(".")[2], name)] += d; procs[(k[0], k[1].rpartition(".")[2])] += d
    print(f"   total {total:.2f} s;", ", ".join(f"{m}:{p} {c:.2f}" for (p,m),c in procs.most_common(6)))
    for (p,m,n),c in agg.most_common(14): print(f"      {c:6.2f}  {m}:{p}  {n}")
    return total
def before_mark(self):
    BEFORE[self.url] = threads(self); return orig_times(self)
Worker.cpu_since = since
works = {w.name: w for w in WORKS}
names, labels, scale, reps = sys.argv[1].split(","), sys.argv[2].split(","), float(sys.argv[3]), int(sys.argv[4])
extra = dict(a.split("=",1) for a in sys.argv[5:])   # label=options
folder = Path(tempfile.mkdtemp(prefix="cv-"))
broker = EmbeddedBroker.start(folder/"broker")
try:
    pp = make_plugin_path(folder/"plugins")
    with ExitStack() as st:
        site = Site(folder, Inputs(folder, broker.bootstrap_servers), st.enter_context(postgres()), scale)
        ws = {}
        for l in labels:
            further = {"plugin.path": str(pp), "java.file.connectors": "true"}
            if l == "same": further["java.jvm.options"] = " ".join(APACHE_OPTIONS)+" "+extra.get("same","")
            elif l in extra: further["java.jvm.options"] = extra[l]
            ws[l] = worker.start("apache" if l.startswith("apache") else "ours", folder/l, broker.bootstrap_servers, f"g-{l}", settings=further)
            st.callback(ws[l].close)
        for r in range(reps):
            for n in names:
                for l in labels:
                    BEFORE[ws[l].url] = threads(ws[l])
                    t0 = time.time()
                    m = works[n].run(ws[l], site, f"{n}_{l}_{r}".replace("-","_"))
                    print(f"{time.strftime('%H:%M:%S')} {n} {l} round {r}: rate {m.rate:,.0f}/s  cpu {m.cpu_s:.1f} s/M  ({time.time()-t0:.1f} s)", flush=True)
        if os.environ.get("KEEPLOG"):
            for l in labels: shutil.copy(folder/l/"worker.log", f"build/{l}.log")
finally:
    broker.stop(); shutil.rmtree(folder, ignore_errors=True)
