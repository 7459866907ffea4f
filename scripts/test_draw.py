"""Tests of bench/figures/draw.py: what it makes of outcomes, of measurements and of the papers' numbers."""

import sys
import tomllib
import unittest
from pathlib import Path
from unittest import mock

FIGURES = Path(__file__).resolve().parent.parent / "bench/figures"
sys.path.insert(0, str(FIGURES))

import draw  # noqa: E402


def outcome(rate, p99, unstable=False):
    """As `quaver sim --json` has it."""
    all_requests = {"name": "all", "latency_us": {"p99": p99}, "slowdown": None}
    return {"rate": rate, "classes": [], "total": all_requests, "unstable": unstable, "best_effort_share": 0.0}


class Draw(unittest.TestCase):
    def test_the_highest_load_is_where_the_curve_crosses_the_limit(self):
        self.assertEqual(draw.highest([(1.0, 10.0), (2.0, 20.0)], 50.0), 2.0)
        self.assertAlmostEqual(draw.highest([(1.0, 10.0), (2.0, 1000.0), (3.0, 1.0)], 100.0), 1.5)
        self.assertEqual(draw.highest([(1.0, 10.0), (2.0, None)], 100.0), 1.0)
        self.assertEqual(draw.highest([(1.0, 200.0)], 100.0), 0.0)

    def test_the_best_of_several_quanta_counts_at_each_load(self):
        figure = {"class": "all", "percentile": "p99", "scenario": {"load": {}, "server": {}}}
        curve = {"name": "c", "args": ["{quantum}"], "best-of-us": [5, 50]}
        runs = {5: [outcome(1, 10.0), outcome(2, 90.0, unstable=True)], 50: [outcome(1, 30.0), outcome(2, 40.0)]}
        whole = draw.simulate

        def simulate(quaver, figure, curve, quick, quantum=None, changes=None):
            return whole(quaver, figure, curve, quick, quantum, changes) if quantum is None else runs[quantum]

        with mock.patch.object(draw, "simulate", simulate):
            best = whole("quaver", figure, curve, False)
        self.assertEqual([draw.value_of(figure, o) for o in best], [10.0, 40.0])

    def test_one_worker_is_shown_beside_its_simulation_and_the_paper(self):
        measured = {"benchmark": "b", "row": "t={x} p99", "what": "us", "over": "threads", "at": [1, 2], "vary": "schbench.workers"}
        measured |= {"paper-cores": 24, "length": "length", "scenario": {"schbench": {"request": "1us"}, "server": {}}}
        measured["curve"] = [{"name": "c", "implementation": "quaver", "args": [], "paper": "theirs"}, {"name": "k", "implementation": "kernel"}]
        figure = {"class": "all", "percentile": "p99", "measured": [measured]}
        rows = [("t=1 p99", "quaver", 7.5), ("t=1 p99", "kernel", 9.0), ("length", "kernel", 1234.4)]
        bench = {"rows": [{"benchmark": "b", "name": n, "implementation": i, "median": m} for n, i, m in rows]}
        asked = []

        def simulate(_quaver, figure, _curve, _quick, changes):
            asked.append((figure["scenario"]["schbench"]["request"], changes["schbench"]["workers"]))
            return [outcome(0, 5.0)]

        with mock.patch.object(draw, "simulate", simulate):
            curves = draw.counterpart("quaver", figure, measured, bench, {"theirs": [(24, 3.0)]}, False)
            nothing = draw.counterpart("quaver", figure, measured, None, {}, False)
        self.assertEqual(asked[:2], [("1234us", 1), ("1234us", 2)])
        self.assertEqual(curves[0]["points"][0], {"at": 1, "real": 7.5, "simulated": 5.0, "paper": 3.0})
        self.assertEqual(curves[1]["points"], [{"at": 1, "real": 9.0, "simulated": None, "paper": None}, {"at": 2, "real": None, "simulated": None, "paper": None}])
        page = draw.counterpart_page(measured, curves)
        self.assertIn("<td>for real</td><td>7.5</td><td></td>", page)
        self.assertNotIn("Nothing was run", page)
        self.assertIn("Nothing was run for real yet", draw.counterpart_page(measured, nothing))

    def test_every_figure_says_what_was_simulated_and_run_and_differs(self):
        for path in sorted(FIGURES.glob("*/figure.toml")):
            figure = tomllib.loads(path.read_text(encoding="utf-8"))
            self.assertTrue(figure["real"] and figure["difference"], path)
            self.assertEqual("measured" in figure, not figure["real"].startswith("nothing"), path)
            names = {curve["name"] for curve in figure["curve"]}
            for one, other, *_ in figure.get("headlines", []):
                self.assertLessEqual({one, other}, names, path)
            readme = (path.parent / "README.md").read_text(encoding="utf-8")
            for part in ("*Simulated*", "*Run for real*", "*Compared*"):
                self.assertIn(part, readme, path)


if __name__ == "__main__":
    unittest.main()
