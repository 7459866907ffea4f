"""Makes one HTML page of the results of `quaver bench` and `quaver demo`, without references to anything outside.

    python3 report.py --bench FILE --demo FILE --figures FILE --out FILE

The page has a table and a bar chart for each row name of the benchmarks, and the demonstration's verdict with a link to
its own page, which lies beside this one; and the headlines of the papers' simulated figures (bench/figures/draw.py), whose
page lies in figures/. A file that is missing leaves its part out; one that cannot be read is an error.
"""

import argparse
import itertools
import json
import os
import sys
import tempfile
from html import escape
from pathlib import Path

# Sizes of a chart, in SVG units.
LABEL, BAR, VALUE, LINE = 250, 420, 190, 22

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #59636e; --line: #d1d9e0; --ours: #0b6bcb; --other: #9aa4ae; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --soft: #9198a1; --line: #3d444d; --ours: #58a6ff; --other: #6e7781; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h3 { margin: 1.6rem 0 .3rem; font-size: 1rem; }
p.soft, li { color: var(--soft); }
p.verdict { font-size: 1.1rem; font-weight: 600; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .15rem .7rem; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child, td:first-child { text-align: left; }
svg { max-width: 100%; height: auto; }
svg text { font: 13px system-ui, sans-serif; fill: var(--ink); }
.ours { fill: var(--ours); } .other { fill: var(--other); } .range { stroke: var(--ink); }
"""


def number(value):
    """Three digits that mean something, as in the command's own tables."""
    size = abs(value)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2
    return f"{value:.{digits}f}"


def is_ours(row):
    """Is this row about Quaver itself?"""
    return row["implementation"].startswith("quaver")


def chart(rows):
    """Bars of the medians, with a line from the lowest to the highest run."""
    longest = max(row["max"] for row in rows)
    scale = BAR / longest if longest > 0 else 0

    def place(value):
        return LABEL + max(value, 0) * scale

    height = LINE * len(rows)
    parts = [f'<svg viewBox="0 0 {LABEL + BAR + VALUE} {height}" width="{LABEL + BAR + VALUE}" role="img" aria-label="Medians; the figures are below">']
    for i, row in enumerate(rows):
        middle = LINE * i + LINE / 2
        kind = "ours" if is_ours(row) else "other"
        parts.append(
            f'<text x="{LABEL - 8}" y="{middle + 4:g}" text-anchor="end">{escape(row["implementation"])}</text>'
            f'<rect class="{kind}" x="{LABEL}" y="{middle - 7:g}" width="{max(place(row["median"]) - LABEL, 1):.1f}" height="14"/>'
            f'<line class="range" x1="{place(row["min"]):.1f}" x2="{place(row["max"]):.1f}" y1="{middle:g}" y2="{middle:g}"/>'
            f'<text x="{place(row["max"]) + 8:.1f}" y="{middle + 4:g}">{number(row["median"])} {escape(row["unit"])}</text>'
        )
    parts.append("</svg>")
    return "".join(parts)


def table(rows):
    """All figures of the rows."""
    head = "".join(f"<th>{name}</th>" for name in ("implementation", "median", "min", "max", "unit", "runs", "ratio"))
    lines = []
    for row in rows:
        ratio = f"{row['ratio']:.2f}" if row.get("ratio") is not None else ""
        cells = [row["implementation"], *(number(row[key]) for key in ("median", "min", "max"))]
        cells += [row["unit"], str(row["runs"]), ratio]
        lines.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
    return f"<details><summary>figures</summary><table><tr>{head}</tr>{''.join(lines)}</table></details>"


def benchmarks(document):
    """A section for each benchmark, a chart for each row name in it."""
    parts = []
    for benchmark, group in itertools.groupby(document["rows"], key=lambda row: row.get("benchmark", "benchmark")):
        parts.append(f"<h2>{escape(benchmark)}</h2>")
        for name, rows in itertools.groupby(group, key=lambda row: row["name"]):
            rows = list(rows)
            parts.append(f"<h3>{escape(name)}, {escape(rows[0]['unit'])}</h3>{chart(rows)}{table(rows)}")
    notes = "".join(f"<li>{escape(note)}</li>" for note in document.get("notes", []))
    parts.append(f"<h2>Notes</h2><ul>{notes}</ul>" if notes else "")
    return "".join(parts)


def machine(facts):
    """One line that says where the benchmarks were measured."""
    kernel, cpus = facts.get("kernel") or {}, facts.get("cpus") or {}
    parts = [kernel.get("processor"), f"{len(cpus.get('allowed') or [])} usable CPUs"]
    parts += [f"Linux {kernel['release']}" if kernel.get("release") else None]
    parts += [f"under {kernel['hypervisor']}" if kernel.get("hypervisor") else None]
    return ", ".join(escape(part) for part in parts if part)


def headlines(figures):
    """What the papers' figures say, ours and theirs, with a link to the curves."""
    lines = []
    for figure in figures:
        title = f"{escape(figure['title'])}{', and one worker for real' if is_measured(figure) else ''}"
        for line in figure.get("headlines") or [{}]:
            said = "" if line.get("ours") is None else f"{number(line['ours'])}, in the paper {number(line['paper'])}"
            of = f"{line['of']} over {line['over']}" if said else ""
            lines.append(f"<tr><td>{title}</td><td>{escape(of)}</td><td>{said}</td></tr>")
            title = ""
    head = "<tr><th>figure</th><th>ratio</th><th>simulated</th></tr>"
    link = '<p><a href="figures/index.html">Curves, what was run for real on one worker, and the differences</a></p>'
    return f"<h2>The papers' figures</h2>{link}<table>{head}{''.join(lines)}</table>"


def is_measured(figure):
    """Has anything of the figure been run for real?"""
    points = (point for curve in figure.get("measured", []) for point in curve["points"])
    return any(point["real"] is not None for point in points)


def page(bench, demo, figures=None):
    """The whole page."""
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Quaver: results</title>',
        f"<style>{STYLE}</style></head><body><h1>Quaver: results</h1>",
    ]
    if demo is not None:
        verdict = (demo.get("summary") or {}).get("verdict") or "It has no verdict."
        parts.append(f'<h2>Demonstration</h2><p class="verdict">{escape(verdict)}</p>')
        parts.append('<p><a href="report.html">Curves and all figures</a></p>')
    if figures is not None:
        parts.append(headlines(figures))
    if bench is not None:
        parts.append(f'<p class="soft">Benchmarks: {machine(bench.get("machine") or {})}. ')
        if bench.get("quick"):
            parts.append("<strong>A quick look, no measurement.</strong> ")
        parts.append("Bars are medians, lines reach from the lowest to the highest run; ratios compare with the first ")
        parts.append("implementation of each table in the same round.</p>")
        parts.append(benchmarks(bench))
    if bench is None and demo is None and figures is None:
        parts.append("<p>Nothing has been measured yet: <code>make demo</code>, <code>make bench</code>.</p>")
    parts.append("</body></html>\n")
    return "".join(parts)


def read(path):
    """The JSON document, or None if there is no such file."""
    if path is None or not path.exists():
        return None
    with path.open(encoding="utf-8") as file:
        return json.load(file)


def write(path, text):
    """Writes a whole file or leaves it as it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".quaver-unfinished-")
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", type=Path, metavar="FILE", help="what `quaver bench --json` wrote")
    parser.add_argument("--demo", type=Path, metavar="FILE", help="what `quaver demo` wrote")
    parser.add_argument("--figures", type=Path, metavar="FILE", help="results.json of bench/figures/draw.py")
    parser.add_argument("--out", type=Path, metavar="FILE", required=True, help="the page")
    options = parser.parse_args(arguments)
    try:
        write(options.out, page(read(options.bench), read(options.demo), read(options.figures)))
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"report.py: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
