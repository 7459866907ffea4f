"""Draws docs/demo.svg from a report of `quaver demo`: `demo_svg.py quaver-report/report.json >docs/demo.svg`.

The p99 of the GETs by load, in a page that is light or dark.
"""

import json
import math
import sys

WIDTH, HEIGHT = 760, 330
LEFT, RIGHT, TOP, BOTTOM = 78, 560, 40, 272
MODES = [
    ("run_to_completion", "done", "run to completion"),
    ("preemptive", "signals", "by signals"),
    ("probe", "probes", "at probes"),
]
STYLE = """<style>
  text { font: 14px system-ui, sans-serif; fill: #57606a; }
  .small { font-size: 12px; } .head { font-weight: 600; }
  line { stroke: #57606a; } .grid { opacity: 0.25; }
  polyline { fill: none; stroke-width: 2.5; }
  .done { stroke: #7a828b; } .signals { stroke: #4078b8; } .probes { stroke: #d06a28; }
  circle.done { fill: #7a828b; } circle.signals { fill: #4078b8; } circle.probes { fill: #d06a28; }
  @media (prefers-color-scheme: dark) {
    text { fill: #b1bac4; } line { stroke: #b1bac4; }
    .done { stroke: #b1bac4; } .signals { stroke: #7aa7d9; } .probes { stroke: #e8935c; }
    circle.done { fill: #b1bac4; } circle.signals { fill: #7aa7d9; } circle.probes { fill: #e8935c; }
  }
</style>"""


def time(us):
    """As people write it, with two digits or three."""
    if us < 1000:
        return f"{us:.0f} µs"
    return f"{us / 1000:.1f} ms" if us < 10_000 else f"{us / 1000:.0f} ms"


def curves(report):
    """The points of each mode that was run: load in percent, p99 in µs."""
    rows = report["rows"]
    points = {key: [(r["load_percent"], r["get"]["p99_us"]) for r in rows if r["mode"] == key] for key, _, _ in MODES}
    return {key: sorted(some) for key, some in points.items() if some}


def decades(points):
    """The powers of ten between which all values are."""
    values = [us for some in points.values() for _, us in some]
    return math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))


def svg(report):
    """The drawing."""
    points = curves(report)
    low, high = decades(points)

    def x(load):
        return LEFT + (RIGHT - LEFT) * load / 100

    def y(us):
        return BOTTOM - (BOTTOM - TOP) * (math.log10(us) - low) / (high - low)

    last = "; ".join(f"{name} {time(points[key][-1][1])}" for key, _, name in MODES if key in points)
    load = max(some[-1][0] for some in points.values())
    label = f"99th percentile of the GETs' latency by load. At {load:.0f} % of one worker: {last}."
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
        f' role="img"\n     aria-label="{label}">',
        STYLE,
        '<text x="20" y="22" class="head">p99 of the GETs</text>',
    ]
    for decade in range(low, high + 1):
        at = y(10**decade)
        grid = "" if decade == low else ' class="grid"'
        lines.append(f'<line x1="{LEFT}" y1="{at:.0f}" x2="{RIGHT}" y2="{at:.0f}"{grid}/>')
        lines.append(
            f'<text x="{LEFT - 8}" y="{at + 4:.0f}" class="small" text-anchor="end">{time(10**decade).replace(".0", "")}</text>'
        )
    for at in range(0, 101, 20):
        lines.append(f'<line x1="{x(at):.0f}" y1="{BOTTOM}" x2="{x(at):.0f}" y2="{BOTTOM + 5}"/>')
        lines.append(f'<text x="{x(at):.0f}" y="{BOTTOM + 21}" class="small" text-anchor="middle">{at}</text>')
    scan = report["services"]["scan_ns"] / 1000
    get, rest = report["settings"]["mix"].split("/")
    mix = f"load, % of one worker: {get} % GETs of 1 µs, {rest} % SCANs of {scan:.0f} µs"
    lines.append(f'<text x="{(LEFT + RIGHT) // 2}" y="{BOTTOM + 44}" class="small" text-anchor="middle">{mix}</text>')
    for key, css, name in MODES:
        if key not in points:
            continue
        places = " ".join(f"{x(load):.0f},{y(us):.0f}" for load, us in points[key])
        lines.append(f'<polyline class="{css}" points="{places}"/>')
        for load, us in points[key]:
            title = f"<title>{name}, {load:.0f} %: {time(us)}</title>"
            lines.append(f'<circle class="{css}" cx="{x(load):.0f}" cy="{y(us):.0f}" r="4" stroke="none">{title}</circle>')
        load, us = points[key][-1]
        lines.append(f'<text x="{x(load) + 14:.0f}" y="{y(us) + 5:.0f}">{name}: {time(us)}</text>')
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        sys.stdout.write(svg(json.load(file)))
