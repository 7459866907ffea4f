"""Tests of demo_svg.py."""

import unittest
import xml.etree.ElementTree as ET

import demo_svg

SVG = "{http://www.w3.org/2000/svg}"


def row(mode, load, p99):
    return {"mode": mode, "load_percent": load, "get": {"p99_us": p99}}


class DemoSvg(unittest.TestCase):
    def drawing(self, rows):
        report = {"rows": rows, "services": {"scan_ns": 260_000}, "settings": {"mix": "95/5"}}
        return ET.fromstring(demo_svg.svg(report))

    def test_each_row_is_a_point_higher_if_it_is_later(self):
        rows = [row("preemptive", 10, 40), row("preemptive", 90, 4_000), row("run_to_completion", 10, 400)]
        root = self.drawing(rows)
        circles = root.findall(SVG + "circle")
        titles = [circle.find(SVG + "title").text for circle in circles]
        self.assertEqual(titles, ["run to completion, 10 %: 400 µs", "by signals, 10 %: 40 µs", "by signals, 90 %: 4.0 ms"])
        at = [(int(circle.get("cx")), int(circle.get("cy"))) for circle in circles]
        self.assertEqual(at[0][0], at[1][0])
        self.assertLess(at[2][1], at[0][1])
        self.assertLess(at[0][1], at[1][1])

    def test_a_mode_that_was_not_run_is_left_out(self):
        root = self.drawing([row("preemptive", 10, 40)])
        self.assertEqual(len(root.findall(SVG + "polyline")), 1)
        self.assertTrue(all("probes" not in (text.text or "") for text in root.findall(SVG + "text")))

    def test_times_are_short(self):
        self.assertEqual([demo_svg.time(us) for us in (18.8, 999, 1500, 83_600)], ["19 µs", "999 µs", "1.5 ms", "84 ms"])


if __name__ == "__main__":
    unittest.main()
