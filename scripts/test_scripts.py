"""Tests of check_json.py and check_docs.py."""

import copy
import tempfile
import unittest
from pathlib import Path

import check_docs
import check_json

MACHINE = {"kernel": {"release": "6.18", "processor": "A <fast> one"}, "cpus": {"allowed": [0, 1]}}


def row(name, implementation, median, **more):
    figures = {"min": median / 2, "median": median, "max": median * 2, "runs": 3, "unit": "ns"}
    return {"benchmark": "ops", "name": name, "implementation": implementation, **figures, **more}


BENCH = {
    "machine": MACHINE,
    "quick": True,
    "rows": [row("yield", "quaver posix-timer 50us", 34.0), row("yield", "go & co", 138.0, ratio=4.06), row("spawn", "may", 0)],
    "notes": ["no <Go>"],
}

DEMO_ROW = {
    "load_percent": 10, "offered_rps": 1.0, "achieved_rps": 1.0, "unsent": 0, "dropped": 0, "unfinished": 0,
    "preemptions": {"sent": 1, "received": 1, "deferred": 0, "stale": 0, "useful": 1},
    "get": {"p50_us": 1.0, "p99_us": 2.0, "p999_us": 3.0}, "scan": None,
}
DEMO = {
    "summary": {"verdict": "It bought much.", "slo_load_percent": {"run_to_completion": 0, "preemptive": 50}},
    "rows": [{"mode": "run_to_completion", **DEMO_ROW}, {"mode": "preemptive", **copy.deepcopy(DEMO_ROW)}],
}


class Shape(unittest.TestCase):
    def wrong(self, check, document, part):
        with self.assertRaises(check_json.Wrong) as raised:
            check(document)
        self.assertIn(part, str(raised.exception))

    def test_good_documents_pass(self):
        check_json.bench(BENCH)
        check_json.demo(DEMO)

    def test_each_promise_of_the_demo_is_checked(self):
        for path in ("summary.slo_load_percent.preemptive", "summary.verdict", "rows"):
            document = copy.deepcopy(DEMO)
            *parents, key = path.split(".")
            owner = document
            for parent in parents:
                owner = owner[parent]
            del owner[key]
            self.wrong(check_json.demo, document, key)
        document = copy.deepcopy(DEMO)
        document["rows"][1]["get"]["p99_us"] = "fast"
        self.wrong(check_json.demo, document, "preemptive at 10 %: get.p99_us")
        self.wrong(check_json.demo, {**DEMO, "rows": DEMO["rows"][:1]}, "modes")

    def test_each_promise_of_the_benchmarks_is_checked(self):
        self.wrong(check_json.bench, {**BENCH, "rows": []}, "no rows")
        self.wrong(check_json.bench, {**BENCH, "rows": [row("a", "go", 1.0)]}, "Quaver")
        self.wrong(check_json.bench, {**BENCH, "rows": [row("a", "quaver", 1.0, max=0.9)]}, "out of order")
        self.wrong(check_json.bench, {**BENCH, "rows": [row("a", "quaver", 1.0, runs=True)]}, "runs is no number")

    def test_each_promise_about_servers_is_checked(self):
        names = ("echo 32 rate", "echo 256 server and client CPU", "1 scan: GET p50", "4 scans: SCANs", "pages: fast p99")
        rows = [{**row(name, "quaver net auto", 1.0), "benchmark": "net"} for name in names]
        aim = {**row("echo 32 server CPU / tokio", "quaver net auto", 1.0, aim={"at_most": 1.05}), "benchmark": "net"}

        def document(*rows, notes=()):
            return {**BENCH, "benchmarks": ["net"], "rows": rows, "notes": list(notes)}

        check_json.bench(document(*rows, aim))
        self.wrong(check_json.bench, document(*rows), "no aims")
        self.wrong(check_json.bench, document(*rows[1:], aim), "echo 32 rate")
        self.wrong(check_json.bench, document(*rows, {**aim, "aim": {"at_most": "1"}}), "no number")
        self.wrong(check_json.bench, document(*rows, {**aim, "aim": {"about": 1}}), "the aim is")
        check_json.bench(document(*BENCH["rows"], notes=["net: left out: server and client take two CPUs"]))

    def test_each_promise_about_probes_is_checked(self):
        def labelled(variant, **more):
            labels = {"section": "tax", "program": "lu", "compiler": "gcc", "variant": variant}
            return {**row("tax lu gcc", f"quaver {variant}", 9.0, **more), "benchmark": "probes", **labels}

        rows = [labelled("plain"), labelled("control", ratio=1.0), labelled("probes", ratio=1.01)]
        numbers = ("tax_mean", "tax_worst", "tax_over_control_mean", "armed_mean", "preemption_ns", "signal_ns", "far_mean")
        summary = {**dict.fromkeys(numbers, 1.0), "signal_ns": None}
        document = {**BENCH, "benchmarks": ["ops", "probes"], "rows": BENCH["rows"] + rows, "summary": summary}
        check_json.bench(document)
        self.wrong(check_json.bench, {**document, "summary": {}}, "tax_mean")
        self.wrong(check_json.bench, {**document, "summary": {**summary, "signal_ns": "?"}}, "signal_ns")
        self.wrong(check_json.bench, {**document, "rows": rows[:2]}, "tax of")
        self.wrong(check_json.bench, {**document, "rows": rows[:2] + [labelled("probes")]}, "ratio")
        clocked = labelled("word", ratio=1.0, quantum_us=5)
        self.wrong(check_json.bench, {**document, "rows": [*rows, clocked]}, "metrics")

    def test_a_selftest_that_did_little_is_refused(self):
        def document(counts, skipped=None):
            zero = {"boundaries_tried": 0, "migrations": 0, "deferred": 0, "differences": 0}
            kinds = ["boundaries", "torture", "torture"]
            rows = [
                {**zero, "kind": k, "name": f"{k}{i}", "workers": 1, "preemptions": n, "skipped": None}
                for i, (k, n) in enumerate(zip(kinds, counts))
            ]
            for row in rows[1:] if skipped else []:
                row["skipped"] = skipped
            sums = {"preemptions": sum(counts[1:]), "migrations": 0, "differences": 0}
            return {**zero, "preemptions": sum(counts), "rows": rows, "torture": sums}

        check_json.selftest(document([1, 600, 400]), 1000)
        for counts, skipped, part in [
            ([1, 600, 399], None, "999 preemptions, fewer than 1000"),
            ([1, 600, 400], "no shim", "skipped: torture1: no shim; torture2: no shim"),
        ]:
            self.wrong(lambda d: check_json.selftest(d, 1000), document(counts, skipped), part)

    def test_programs_that_differ_or_were_not_run_are_refused(self):
        good = {"programs": 200, "differences": 0, "runs": 1600, "operations": 1, "unconfirmed": 0, "unstable": 0}
        check_json.fuzz(good)
        self.wrong(check_json.fuzz, {**good, "differences": 1}, "something else")
        self.wrong(check_json.fuzz, {**good, "programs": 20}, "only 20 programs")
        self.wrong(check_json.fuzz, {**good, "runs": 200}, "only 200 runs")

    def test_scenes_that_differ_or_left_nobody_alone_are_refused(self):
        def document(scenes, **other):
            row = {"scene": "ws", "runs": 9, "compared": 4, "killed": 2, "stops": 3, **other}
            return {"differences": 0, "rows": [row] * scenes}

        check_json.share(document(4))
        self.wrong(check_json.share, {**document(4), "differences": 1}, "as it should")
        self.wrong(check_json.share, document(3), "3 scenes")
        self.wrong(check_json.share, document(4, compared=0), "ws: no program was left alone")


class Docs(unittest.TestCase):
    def test_a_message_is_known_by_its_longest_fixed_part(self):
        self.assertEqual(check_docs.longest_fixed_part("{0} workers: at most {MAX}"), "workers: at most")
        self.assertEqual(check_docs.longest_fixed_part("one \\\n         line {x}"), "one line")

    def test_headings_become_anchors(self):
        with tempfile.TemporaryDirectory() as directory:
            page = Path(directory, "page.md")
            page.write_text("# A `Code` heading, really\n```sh\n# no heading\n```\n", encoding="utf-8")
            self.assertEqual(check_docs.anchors(page), {"a-code-heading-really"})

    def test_the_lists_are_found_in_the_code(self):
        self.assertIn("QUAVER_QUANTUM", check_docs.variables_in_code())
        self.assertIn("max_blocking", check_docs.builder_options())
        self.assertNotIn("build", check_docs.builder_options())
        self.assertIn("fsgsbase", check_docs.findings())
        self.assertGreater(len(list(check_docs.build_errors())), 10)
        self.assertIn("loom", check_docs.libraries())


if __name__ == "__main__":
    unittest.main()
