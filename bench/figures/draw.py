#!/usr/bin/env python3
"""Simulates the papers' figures and draws ours over the reference curves.

    bench/figures/draw.py --quaver target/release/quaver --out quaver-report/figures [--bench FILE] [--quick] [FIGURE...]

Every folder beside this file has a `figure.toml`: a scenario of `quaver sim`, the curves with their options, where the
reference curve is in bench/reference, and what was run for real and where it differs. Writes a page, and results.json with
what each curve says ("best") and how the headline ratios compare with the paper's. There are four kinds of figures:

    percentile over load       best: the highest load within limit-us
    quanta-us = [...]          that highest load over the quantum; best: the quantum with the highest
    timer-quanta-us = [...]    workers that one timer core serves, over the quantum; best: those at headline-quantum-us
    threads = [...]            percentile over the threads of a message benchmark; best: that at headline-threads

A curve with `best-of-us = [...]` is at every load the best of several quanta. A figure with tables [[measured]] has a
counterpart of one worker on this machine: rows of `quaver bench`, which FILE has, where there are `args` beside a simulation
of the same worker and, where `paper` names one, the paper's curve at the same share of its cores.
"""

import argparse
import html
import json
import math
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
REFERENCE = HERE.parent / "reference"
COLOURS = ["#2d82d2", "#d96c14", "#3a9a5b", "#a05ac8", "#c23b4e", "#6b7280"]


def as_toml(tables):
    """A scenario as TOML: tables of plain values."""
    value = lambda v: json.dumps(v) if not isinstance(v, bool) else str(v).lower()
    lines = []
    for name, table in tables.items():
        lines.append(f"[{name}]")
        lines += [f"{key} = {value(v)}" for key, v in table.items()]
    return "\n".join(lines) + "\n"


def simulate(quaver, figure, curve, quick, quantum=None, changes=None):
    """The outcomes of one curve; `changes` are keys of the scenario's tables."""
    if quantum is None and "best-of-us" in curve:
        runs = [simulate(quaver, figure, curve, quick, quantum, changes) for quantum in curve["best-of-us"]]
        worst = lambda outcome: value_of(figure, outcome) or math.inf
        return [min(outcomes, key=worst) for outcomes in zip(*runs)]
    tables = {name: dict(table) for name, table in figure["scenario"].items()}
    for name, table in [("server", curve.get("server", {})), *(changes or {}).items()]:
        tables[name].update(table)
    if quick:
        tables["load"]["requests"] = min(tables["load"].get("requests", 100_000), 20_000)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scenario.toml"
        path.write_text(as_toml(tables), encoding="utf-8")
        args = [arg.replace("{quantum}", str(quantum)) for arg in curve["args"]]
        command = [quaver, "sim", str(path), "--json", "-", *args]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{curve['name']}: {done.stderr.strip()}")
    return json.loads(done.stdout)["outcomes"]


def value_of(figure, outcome):
    """What the figure shows of an outcome; None where the workers cannot follow."""
    classes = {c["name"]: c for c in [*outcome["classes"], outcome["total"]]}
    of = classes[figure["class"]]["slowdown" if figure.get("slowdown") else "latency_us"]
    return None if outcome["unstable"] or of is None else of[figure["percentile"]]


def highest(points, limit):
    """The highest rate up to which all points meet the limit, interpolated to where it is crossed."""
    best = 0.0
    for (x0, y0), (x1, y1) in zip([(0.0, 0.0), *points], points):
        if y1 is not None and y1 <= limit:
            best = x1
            continue
        if y1 is not None and y0 is not None and y1 > y0 > 0:
            share = (math.log(limit) - math.log(y0)) / (math.log(y1) - math.log(y0))
            best = x0 + (x1 - x0) * max(0.0, min(1.0, share))
        break
    return best


def followed(quaver, figure, curve, quantum, workers):
    """Does one timer core send so many workers 99 % of the notifications that are due?"""
    outcome = simulate(quaver, figure, curve, False, quantum, {"server": {"workers": workers}})[0]
    return outcome["counts"]["sent"] >= 0.99 * outcome["seconds"] * 1e6 / quantum * workers


def most_workers(quaver, figure, curve, quantum):
    """How many workers one timer core can serve, of those that there are."""
    low, high = 0, figure["most-workers"]
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if followed(quaver, figure, curve, quantum, middle) else (low, middle - 1)
    return low


def reference(figure, key):
    """The paper's curves: name and points."""
    spec = figure.get(key)
    if not spec:
        return {}
    data = json.loads((REFERENCE / spec["file"]).read_text(encoding="utf-8"))
    point = lambda row: (row[spec["x"]], row[spec["y"]] / spec["divide"])
    rows = lambda name: data[name]["rows"] if isinstance(data[name], dict) else data[name]
    return {ours: [point(row) for row in rows(name)] for name, ours in spec["curves"].items()}


def chart(title, unit, curves, log=True):
    """An SVG: solid lines are ours, dashed ones the papers'."""
    points = [(x, y) for _, points, _ in curves for x, y in points if y]
    if not points:
        return ""
    wide, high, left, foot = 640, 380, 60, 34
    most_x = max(x for x, _ in points) * 1.02
    scale = (lambda y: math.log10(max(y, 1e-3))) if log else (lambda y: y)
    low = math.floor(scale(min(y for _, y in points))) if log else 0.0
    top = math.ceil(scale(max(y for _, y in points)) + 1e-9) if log else max(y for _, y in points) * 1.05
    at = lambda x, y: (left + x / most_x * (wide - left - 10), 20 + (top - scale(y)) / (top - low or 1) * (high - 20 - foot))
    svg = [f'<svg viewBox="0 0 {wide} {high + 18 * len(curves)}" role="img" aria-label="{html.escape(title)}">']
    text = '<text x="{:.0f}" y="{:.0f}" font-size="12" fill="currentColor" text-anchor="{}">{}</text>'
    for step in range(5):
        y = low + (top - low) * step / 4
        shown = 10**y if log else y
        py = at(0, shown)[1]
        svg.append(f'<line x1="{left}" x2="{wide - 10}" y1="{py:.0f}" y2="{py:.0f}" stroke="currentColor" opacity=".2"/>')
        svg.append(text.format(left - 4, py + 4, "end", f"{shown:.3g}"))
        svg.append(text.format(left + (wide - left - 10) * step / 4, high - 14, "middle", f"{most_x * step / 4:.3g}"))
    svg.append(text.format(left, 12, "start", html.escape(unit)))
    names = []
    for index, (name, points, dashed) in enumerate(curves):
        base = name.removesuffix(" (paper)").removesuffix(" (simulated)")
        names.append(base) if base not in names else None
        colour = COLOURS[names.index(base) % len(COLOURS)]
        path = " ".join("{:.1f},{:.1f}".format(*at(x, y)) for x, y in points if y)
        style = ' stroke-dasharray="5 4"' if dashed else ""
        svg.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{style}/>')
        y = high + 14 + 18 * index
        svg.append(f'<line x1="{left}" x2="{left + 26}" y1="{y - 4}" y2="{y - 4}" stroke="{colour}" stroke-width="2"{style}/>')
        svg.append(text.format(left + 32, y, "start", html.escape(name)))
    return "\n".join([*svg, "</svg>"])


def rows_of(bench, measured, at):
    """The medians of one row of `quaver bench`, by implementation."""
    name = measured["row"].replace("{x}", str(at))
    rows = bench["rows"] if bench else []
    return {r["implementation"]: r["median"] for r in rows if r["benchmark"] == measured["benchmark"] and r["name"] == name}


def counterpart(quaver, figure, measured, bench, papers, quick):
    """What one worker did for real, in simulation, and in the paper: curves of points, and of triples for a table."""
    table, key = measured.get("vary", ".").split(".")
    lengths = [r["median"] for r in bench["rows"] if r["name"] == measured.get("length")] if bench else []
    if lengths:
        # A request takes as long as on this machine.
        scenario = measured["scenario"]
        measured = {**measured, "scenario": {**scenario, table: {**scenario[table], "request": f"{round(lengths[0])}us"}}}
    real = {at: rows_of(bench, measured, at) for at in measured["at"]}
    result = []
    for curve in measured["curve"]:
        points = []
        for at in measured["at"]:
            simulated = None
            if "args" in curve:
                changes = {table: {key: at / measured["vary-divide"] if "vary-divide" in measured else at}}
                small = {**figure, **measured}
                simulated = value_of(small, simulate(quaver, small, curve, quick, changes=changes)[0])
            paper = dict(papers.get(curve.get("paper"), [])).get(at * measured.get("paper-cores", 1))
            points.append({"at": at, "real": real[at].get(curve["implementation"]), "simulated": simulated, "paper": paper})
        result.append({"name": curve["name"], "points": points})
    return result


def counterpart_page(measured, curves):
    """Chart and table of a counterpart."""
    title = f"One worker on this machine: {measured['what']}, over {measured['over']}"
    lines = []
    for curve in curves:
        for kind, label in (("real", ""), ("simulated", " (simulated)")):
            points = [(p["at"], p[kind]) for p in curve["points"] if p[kind]]
            if points:
                lines.append((curve["name"] + label, points, kind != "real"))
    shown = lambda value: "" if value is None else f"{value:.4g}"
    head = "".join(f"<th>{at}</th>" for at in measured["at"])
    rows = []
    for curve in curves:
        for kind, label in (("real", "for real"), ("simulated", "simulated"), ("paper", "the paper, for each core")):
            if any(p[kind] is not None for p in curve["points"]):
                cells = "".join(f"<td>{shown(p[kind])}</td>" for p in curve["points"])
                rows.append(f"<tr><td>{html.escape(curve['name'])}</td><td>{label}</td>{cells}</tr>")
    missing = not any(p["real"] is not None for c in curves for p in c["points"])
    note = f"<p>Nothing was run for real yet: <code>quaver bench {measured['benchmark']}</code>.</p>" if missing else ""
    table = f"<table><tr><th>{html.escape(measured['over'])}</th><th></th>{head}</tr>{''.join(rows)}</table>"
    return f"<h3>{html.escape(title)}</h3>{chart(title, measured['what'], lines)}{table}{note}"


def draw(quaver, folder, quick, bench):
    """One figure: HTML and results."""
    figure = tomllib.loads((folder / "figure.toml").read_text(encoding="utf-8"))
    limit, ours, shares, best = figure.get("limit-us"), {}, {}, {}
    for curve in figure["curve"]:
        name = curve["name"]
        if "timer-quanta-us" in figure:
            quanta = [figure["headline-quantum-us"]] if quick else figure["timer-quanta-us"]
            ours[name] = [(quantum, most_workers(quaver, figure, curve, quantum)) for quantum in quanta]
            best[name] = dict(ours[name])[figure["headline-quantum-us"]]
        elif "threads" in figure:
            ours[name] = []
            for threads in figure["threads"]:
                changes = {"schbench": {"workers": threads}}
                outcome = simulate(quaver, figure, curve, quick, changes=changes)[0]
                ours[name].append((threads, value_of(figure, outcome)))
            best[name] = dict(ours[name])[figure["headline-threads"]]
        elif "quanta-us" in figure:
            ours[name] = []
            for quantum in figure["quanta-us"]:
                outcomes = simulate(quaver, figure, curve, quick, quantum)
                top = highest([(o["rate"], value_of(figure, o)) for o in outcomes], limit)
                ours[name].append((quantum, top))
            best[name] = max(ours[name], key=lambda p: p[1])[0]
        else:
            outcomes = simulate(quaver, figure, curve, quick)
            ours[name] = [(o["rate"], value_of(figure, o)) for o in outcomes]
            shares[name] = [(o["rate"], o["best_effort_share"]) for o in outcomes]
            best[name] = highest(ours[name], limit)
    papers = reference(figure, "reference")
    result = {"figure": folder.name, "title": figure["title"], "best": best}
    if "threads" in figure:
        result["paper_best"] = {name: dict(points).get(figure["headline-threads"]) for name, points in papers.items()}
    else:
        result["paper_best"] = {name: highest(sorted(points), limit) for name, points in papers.items()}
    result["paper_best"].update(figure.get("paper-best", {}))
    ratio = lambda one, other: best[one] / best[other] if best[other] else None
    def papers_ratio(one, other, given=None):
        """The ratio of the published curves, where the paper does not give it alone."""
        return given or result["paper_best"][one] / result["paper_best"][other]

    headlines = [{"of": a, "over": b, "ours": ratio(a, b), "paper": papers_ratio(a, b, *c)} for a, b, *c in figure.get("headlines", [])]
    if headlines:
        result["headline"], result["headlines"] = headlines[0], headlines
    curves = [(n, p, False) for n, p in ours.items()] + [(f"{n} (paper)", p, True) for n, p in papers.items()]
    if "timer-quanta-us" in figure:
        unit, log = "workers, over the quantum in us", False
    elif "quanta-us" in figure:
        unit, log = "requests/s within the limit, over the quantum in us", False
    else:
        what = "slowdown" if figure.get("slowdown") else "us"
        over = "threads" if "threads" in figure else "requests/s"
        unit, log = f"{figure['percentile'].replace('_', '.')} of {figure['class']}, {what}, over {over}", True
    page = [f"<h2>{html.escape(figure['title'])}</h2>", chart(figure["title"], unit, curves, log)]
    if "share-reference" in figure:
        theirs = reference(figure, "share-reference")
        curves = [(n, p, False) for n, p in shares.items()] + [(f"{n} (paper)", p, True) for n, p in theirs.items()]
        page.append(chart("share of best-effort work", "share of best-effort work, over requests/s", curves, False))
    for h in (h for h in headlines if h["ours"]):
        page.append(f"<p>{html.escape(h['of'])} over {html.escape(h['over'])}: {h['ours']:.2f}, in the paper {h['paper']:.2f}.</p>")
    for measured in figure.get("measured", []):
        curves = counterpart(quaver, figure, measured, bench, papers, quick)
        result.setdefault("measured", []).extend(curves)
        page.append(counterpart_page(measured, curves))
    page.append(f"<p>Simulated: {html.escape(figure.get('simulated', 'all curves'))}. For real: {html.escape(figure['real'])}. Difference: {html.escape(figure['difference'])}.</p>")
    return "\n".join(page), result


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--quaver", required=True)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--bench", type=Path, help="what `quaver bench --json` wrote; none: nothing was run for real")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("figures", nargs="*")
    args = parser.parse_args()
    known = sorted(path.parent.name for path in HERE.glob("*/figure.toml"))
    for name in args.figures:
        if name not in known:
            sys.exit(f"unknown figure {name}; known are {', '.join(known)}")
    bench = json.loads(args.bench.read_text(encoding="utf-8")) if args.bench and args.bench.exists() else None
    pages, results = [], []
    for name in args.figures or known:
        page, result = draw(args.quaver, HERE / name, args.quick, bench)
        pages.append(page)
        results.append(result)
        print(json.dumps(result.get("headline", result["best"])), name, flush=True)
    args.out.mkdir(parents=True, exist_ok=True)
    style = "body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; } td, th { padding: .1rem .6rem; text-align: right; } :root { color-scheme: light dark; }"
    head = f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>Figures</title><style>{style}</style></head><body>\n'
    (args.out / "index.html").write_text(head + "\n".join(pages) + "\n</body></html>\n", encoding="utf-8")
    (args.out / "results.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
