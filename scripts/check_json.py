"""Checks the shape of the JSON that `quaver doctor`, `demo`, `bench`, `selftest`, `report` and `load` promise to scripts.

    python3 check_json.py doctor|demo|figures|bench|net|servers|fuzz|share|random|load|lock|selftest-lock FILE
    python3 check_json.py selftest FILE PREEMPTIONS
    python3 check_json.py probes FILE HITS

PREEMPTIONS is how many must have been survived, HITS how many probes must have been hit.
"""

import json
import numbers
import sys


class Wrong(Exception):
    """The document does not keep a promise."""


def is_number(value):
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def need(condition, what):
    if not condition:
        raise Wrong(what)


def at(document, path):
    """The value at a path such as `summary.slo_load_percent`."""
    value = document
    for key in path.split("."):
        need(isinstance(value, dict) and key in value, f"{path}: `{key}` is missing")
        value = value[key]
    return value


def need_number(document, path, where=""):
    need(is_number(at(document, path)), f"{where}{path} is no number")


def doctor(document):
    need(at(document, "possible") is True, "this machine is said to be unfit")
    need(isinstance(at(document, "facts"), dict), "facts is no object")
    findings = at(document, "findings")
    need(findings, "there are no findings")
    for finding in findings:
        need(finding.get("status") in ("ok", "warn", "missing"), f"status of {finding}")
    chosen = {choice["name"]: choice for choice in at(document, "choice")}
    for name in ("clock", "notification", "resume", "workers", "quantum"):
        need(chosen.get(name, {}).get("value"), f"no choice of {name}")
        need(chosen[name].get("why"), f"no reason for the choice of {name}")
    return f"{len(findings)} findings"


def demo(document):
    for mode in ("run_to_completion", "preemptive"):
        need_number(document, f"summary.slo_load_percent.{mode}")
    need(at(document, "summary.verdict"), "there is no verdict")
    rows = at(document, "rows")
    modes = {row.get("mode") for row in rows}
    need(modes - {"probe"} == {"run_to_completion", "preemptive"}, f"rows of the modes {modes}")
    for row in rows:
        where = f"{row.get('mode')} at {row.get('load_percent')} %: "
        paths = ["load_percent", "offered_rps", "achieved_rps", "unsent", "dropped", "unfinished"]
        paths += [f"preemptions.{n}" for n in ("sent", "received", "deferred", "stale", "useful")]
        for kind in ("get", "scan"):
            # A class of which nothing was sent in a short run is null.
            if at(row, kind) is not None:
                paths += [f"{kind}.{name}" for name in ("p50_us", "p99_us", "p999_us")]
        for path in paths:
            need_number(row, path, where)
    return f"{len(rows)} rows"


def selftest(document, least):
    paths = ["boundaries_tried", "preemptions", "migrations", "deferred", "differences"]
    for path in paths:
        need_number(document, path)
    need(at(document, "differences") == 0, "preemption has changed a result")
    rows = at(document, "rows")
    kinds = {row.get("kind") for row in rows}
    need(kinds == {"boundaries", "torture"}, f"rows of the kinds {kinds}")
    for row in rows:
        for path in paths + ["workers"]:
            need_number(row, path, f"{row.get('name')}: ")
    for path in ("torture.preemptions", "torture.migrations", "torture.differences"):
        need_number(document, path)
    sums = document["torture"]
    need(sums["preemptions"] >= least, f"{sums['preemptions']} preemptions, fewer than {least}")
    programs = [row for row in rows if row["kind"] == "torture"]
    skipped = [f"{row['name']}: {row['skipped']}" for row in programs if at(row, "skipped") is not None]
    need(2 * len(skipped) < len(programs), f"most programs were skipped: {'; '.join(skipped)}")
    return (
        f"{len(rows)} rows; torture: {sums['preemptions']} preemptions, {sums['migrations']} migrations, "
        f"{sums['differences']} differences"
    )


def selftest_lock(document):
    need_number(document, "failed")
    need(document["failed"] == 0, "a part has failed")
    rows = {row.get("part"): row for row in at(document, "rows")}
    parts = ["lock", "slices", "monitor", "monitored", "preemption", "preload"]
    need(list(rows) == parts, f"the parts {list(rows)}")
    for part, row in rows.items():
        need(row.get("outcome") in ("ok", "missing"), f"{part}: the outcome {row.get('outcome')}")
        need(row.get("detail"), f"{part}: no detail")
        need_number(row, "seconds", f"{part}: ")
    need(rows["lock"]["outcome"] == "ok" and rows["preload"]["outcome"] == "ok", "locks or preloading are missing")
    return f"{len(rows)} parts, {at(document, 'missing')} missing"


def fuzz(document):
    for path in ("programs", "differences", "runs", "operations", "unconfirmed", "unstable"):
        need_number(document, path)
    need(document["differences"] == 0, "a program does something else on user threads")
    need(document["programs"] >= 200, f"only {document['programs']} programs")
    need(document["runs"] >= 2 * document["programs"], f"only {document['runs']} runs")
    return f"{document['programs']} programs, {document['runs']} runs"


def share(document):
    need_number(document, "differences")
    need(document["differences"] == 0, "a program that shares cores does not do as it should")
    rows = document["rows"]
    need(len(rows) == 4, f"{len(rows)} scenes")
    for row in rows:
        for name in ("runs", "compared", "killed", "stops"):
            need_number(row, name)
        need(row["compared"] > 0, f"{row['scene']}: no program was left alone")
    return ", ".join(f"{row['scene']}: {row['runs']} runs" for row in rows)


def probes(document, least):
    for path in ("hits", "programs", "differences", "skipped"):
        need_number(document, path)
    need(document["differences"] == 0, "probes have changed a program")
    need(document["compilers"], "no compiler")
    need(document["programs"] > 0, "no programs")
    need(document["hits"] >= least, f"{document['hits']} hits, fewer than {least}")
    return f"{document['programs']} programs, {document['hits']} hits"


def random(document):
    return probes(document, 1)


def figures(document):
    need(isinstance(document, list) and document, "there are no figures")
    for figure in document:
        name = at(figure, "figure")
        for curve, best in at(figure, "best").items():
            need(is_number(best), f"{name}: {curve} is no number")
        if "headline" in figure:
            need_number(figure, "headline.ours", f"{name}: ")
    return f"{len(document)} figures"


def probes_bench(document):
    for name in ("tax_mean", "tax_worst", "tax_over_control_mean"):
        need_number(document, f"summary.{name}")
    for name in ("armed_mean", "preemption_ns", "signal_ns", "far_mean"):
        # A machine with one CPU has no clock, and a busy one may have too few preemptions.
        need(at(document, f"summary.{name}") is None or is_number(document["summary"][name]), f"{name} is no number")
    rows = [row for row in document["rows"] if row["benchmark"] == "probes"]
    for row in rows:
        where = f"{row['name']}, {row['implementation']}: "
        for path in ("section", "program", "compiler", "variant"):
            need(isinstance(at(row, path), str), f"{where}{path} is no text")
        if row["variant"] not in ("plain", "off"):
            need_number(row, "ratio", where)
        if row["variant"] in ("word", "signal", "probe", "armed", "yielder", "probe-core", "signal-core"):
            need_number(row, "metrics.preemptions", where)
            # The quantum of armed is `auto`: the runtime's choice.
            if row["variant"] != "armed":
                need_number(row, "quantum_us", where)
    tax = {row["variant"] for row in rows if row["section"] == "tax"}
    need(tax == {"plain", "control", "probes"}, f"the tax of {tax}")


def aims_of(rows):
    """The rows that have an aim, each of which must be a bound."""
    aims = [row for row in rows if "aim" in row]
    for row in aims:
        where = f"{row['name']}, {row['implementation']}: "
        bounds = list(row["aim"].items())
        need(len(bounds) == 1 and bounds[0][0] in ("at_most", "at_least"), f"{where}the aim is {row['aim']}")
        need(is_number(bounds[0][1]), f"{where}the aim is no number")
    return aims


def servers_bench(document):
    rows = [row for row in document["rows"] if row["benchmark"] == "servers"]
    if not rows and any("take two CPUs" in note for note in document["notes"]):
        return
    notes = f"notes: {document.get('notes')}"
    named = {}
    for row in rows:
        named.setdefault(row["name"], []).append(row)
    for workload in ("rocksdb 50/50", "rocksdb 99.5/0.5", "memcached USR", "analytics"):
        loads = named.get(f"{workload}: load", [])
        who = {row["implementation"] for row in loads}
        need("quaver off" in who and len(who) > 1, f"{workload}: only the loads of {who}; {notes}")
        for row in loads:
            where = f"{workload}, {row['implementation']}: "
            need(0 < row["min"] and row["max"] <= 130, f"{where}a load of {row['median']} %")
        for row in named.get(f"{workload}: short p50 alone", []):
            need(row["median"] > 0, f"{workload}, {row['implementation']}: alone {row['median']} us")
        need(f"{workload}: short p50 alone" in named, f"{workload}: nothing was measured alone; {notes}")
    for program in ("memcached", "redis-server", "nginx"):
        left_out = any(f"{program} left out" in note for note in document["notes"])
        need(left_out or f"{program}, 1 worker: server CPU" in named, f"no row of {program}; {notes}")
    aims = {row["name"] for row in aims_of(rows)}
    need("rocksdb 50/50: load / run to completion" in aims, f"the aims are {aims}; {notes}")


def net_bench(document):
    rows = [row for row in document["rows"] if row["benchmark"] == "net"]
    if not rows and any("take two CPUs" in note for note in document["notes"]):
        return
    aims = aims_of(rows)
    names = {row["name"] for row in rows}
    for name in ("echo 32 rate", "echo 256 server and client CPU", "1 scan: GET p50", "4 scans: SCANs", "pages: fast p99"):
        need(name in names, f"no row {name!r}; notes: {document.get('notes')}")
    need(aims, f"there are no aims; notes: {document.get('notes')}")


def lock_bench(document):
    rows = [row for row in document["rows"] if "lock" in row]
    for row in rows:
        where = f"{row['name']}, {row['implementation']}: "
        need(isinstance(at(row, "workload"), str), f"{where}the workload is no text")
        for path in ("threads", "background", "ops_per_s"):
            need_number(row, path, where)
        need(row["ops_per_s"] > 0, f"{where}nothing was done")
        if row["lock"] not in ("pthread", "native"):
            need_number(row, "ratio_to_pthread", where)
    found = {(row["workload"], row["lock"]) for row in rows}
    for workload in ("shared-memory", "hash-table", "fairness", "runnable", "dedup", "raytrace", "streamcluster"):
        for name in ("pthread", "futex", "mcs-tp", "malthusian", "shuffle", "u-scl", "quaver unmonitored"):
            missing = (workload, name) not in found and (workload, name) != ("dedup", "u-scl")
            need(not missing, f"no row of {name} in {workload}; notes: {document.get('notes')}")
    left_out = any("quaver: left out" in note for note in document["notes"])
    need(left_out or aims_of(document["rows"]), f"there are no aims; notes: {document.get('notes')}")


def bench(document):
    need(isinstance(at(document, "machine"), dict), "machine is no object")
    rows = at(document, "rows")
    need(rows, "there are no rows")
    for row in rows:
        where = f"{row.get('name')}, {row.get('implementation')}: "
        for path in ("name", "implementation", "unit"):
            need(isinstance(at(row, path), str) and row[path], f"{where}{path} is no text")
        for path in ("min", "median", "max", "runs"):
            need_number(row, path, where)
        need(row["min"] <= row["median"] <= row["max"], f"{where}min, median and max are out of order")
        need(row["runs"] >= 1, f"{where}no runs")
    if "probes" in document.get("benchmarks", []):
        probes_bench(document)
    if "net" in document.get("benchmarks", []):
        net_bench(document)
    if "servers" in document.get("benchmarks", []):
        servers_bench(document)
    if document.get("benchmarks") == ["lock"]:
        lock_bench(document)
    ours = [row for row in rows if row["implementation"].startswith("quaver")]
    need(ours, f"no rows of Quaver; notes: {document.get('notes')}")
    return f"{len(rows)} rows, {len(ours)} of them Quaver's"


def load(document):
    total = at(document, "summary.total")
    for path in ("offered", "completed", "dropped", "unsent", "unfinished", "latency_ns.p99.value", "achieved_rate"):
        need_number(total, path)
    need_number(document, "client_cpu_s")
    refused = sum(errors["refused"] for errors in at(document, "errors"))
    need(refused == 0, f"{refused} requests were refused")
    need(document["broken_connections"] == 0, "connections broke")
    need(total["completed"] > 0, "nothing was answered")
    # Datagrams may be lost where a machine is busy.
    if document["protocol"] != "aspen-udp":
        need(total["completed"] == total["offered"], f"answered were only {total['completed']} of {total['offered']}")
    return f"{total['completed']} requests"


CHECKS = {
    "doctor": doctor,
    "demo": demo,
    "figures": figures,
    "bench": bench,
    "lock": bench,
    "net": bench,
    "servers": bench,
    "selftest": selftest,
    "selftest-lock": selftest_lock,
    "fuzz": fuzz,
    "share": share,
    "probes": probes,
    "random": random,
    "load": load,
}
# Those that are told how much there must be.
COUNTED = ("selftest", "probes")


def main(arguments):
    kind, path, *numbers_given = arguments if len(arguments) > 1 else ("", "")
    if kind not in CHECKS or len(numbers_given) != (kind in COUNTED):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        with open(path, encoding="utf-8") as file:
            found = CHECKS[kind](json.load(file), *map(int, numbers_given))
    except (Wrong, ValueError, OSError) as error:
        print(f"{path}: {error}", file=sys.stderr)
        return 1
    print(f"{kind}: the JSON has the promised shape ({found})")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
