"""Counts the lines of each policy's code and keeps the table in docs/policies.md: `policy_lines.py --write`.

Counted is what a compiler reads of a policy's file: no comments, no blank lines, no tests. Skyloft's numbers are those of
its Table 4 (SOSP '24).
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
POLICIES = ROOT / "crates/sched/src/policies"
PAGE = ROOT / "docs/policies.md"
BEGIN = "<!-- lines: made by scripts/policy_lines.py --write -->\n"
END = "<!-- end of lines -->\n"

# Policy, its files, Skyloft's and others' lines.
ROWS = [
    ("fifo", ["fifo.rs"], ""),
    ("rr", ["rr.rs"], "141"),
    ("ws", ["ws.rs", "looks.rs", "turns.rs"], "150 (preemptive)"),
    ("two-queue", ["two_queue.rs", "history.rs", "resumed.rs", "looks.rs", "turns.rs"], ""),
    ("cfs", ["cfs.rs", "looks.rs"], "430; Linux 6592"),
    ("eevdf", ["eevdf.rs", "looks.rs"], "579; Linux 7102"),
    ("shinjuku", ["rr.rs"], "192; ghOSt 710"),
    ("shinjuku-shenango", ["shenango.rs"], "444; ghOSt 727"),
    ("priority", ["priority.rs"], ""),
    ("las", ["las.rs"], ""),
    ("adaptive", ["adaptive.rs", "two_queue.rs", "history.rs", "resumed.rs", "looks.rs", "turns.rs"], ""),
]


def count(text):
    """The lines of code of a Rust file, without what follows `#[cfg(all(test...` or `#[cfg(test)]`."""
    code = re.split(r"^#\[cfg\((?:all\()?test", text, maxsplit=1, flags=re.M)[0]
    lines = (line.strip() for line in code.splitlines())
    return sum(1 for line in lines if line and not line.startswith("//"))


def table():
    """The table as Markdown."""
    lines = ["| policy | lines of code | Skyloft's Table 4 |", "|---|---|---|"]
    for name, files, other in ROWS:
        total = sum(count((POLICIES / file).read_text(encoding="utf-8")) for file in files)
        lines.append(f"| `{name}` | {total} | {other} |")
    return "\n".join(lines) + "\n"


def updated(page):
    """The page with the table as it should be."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + table() + END + after


def main():
    page = PAGE.read_text(encoding="utf-8")
    if "--write" in sys.argv[1:]:
        PAGE.write_text(updated(page), encoding="utf-8")
    elif updated(page) != page:
        sys.exit("docs/policies.md is out of date: run scripts/policy_lines.py --write")


if __name__ == "__main__":
    main()
