"""Checks that the pages keep up with the code: links lead somewhere, and lists that promise to be complete are.

Complete must be: the environment variables and builder options in docs/configuration.md, the library's error
messages and the findings of `quaver doctor` in docs/troubleshooting.md, the libraries in ARCHITECTURE.md.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONFIG = ROOT / "crates/runtime/src/config.rs"
SETTINGS = ROOT / "crates/sched/src/settings.rs"
FROM_TEXT = ROOT / "crates/runtime/src/config/text.rs"
TROUBLESHOOTING = ROOT / "docs/troubleshooting.md"
CONFIGURATION = ROOT / "docs/configuration.md"
ARCHITECTURE = ROOT / "ARCHITECTURE.md"


def pages():
    """Every Markdown page that is part of the source."""
    ignored = {".git", "target"}
    for path in sorted(ROOT.rglob("*.md")):
        parts = path.relative_to(ROOT).parts
        if not any(part in ignored or part.startswith("target-") for part in parts):
            yield path


def without_code(text):
    """The text without fenced blocks, in which nothing is a heading or a link."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M)


def anchors(page):
    """The names that a link into `page` can have, as the usual renderers make them."""
    headings = re.findall(r"^#+ +(.*)$", without_code(page.read_text(encoding="utf-8")), re.M)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in plain}


def broken_links():
    """A message for each relative link that leads nowhere."""
    for page in pages():
        text = without_code(page.read_text(encoding="utf-8"))
        links = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'(?:src|href)="([^"]+)"', text)
        for link in links:
            if re.match(r"[a-z]+:", link):
                continue
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            name = page.relative_to(ROOT)
            if not target.exists():
                yield f"{name}: the link {link} leads nowhere"
            elif anchor and target.suffix == ".md" and anchor not in anchors(target):
                yield f"{name}: {target.name} has no heading #{anchor}"


def rust_sources(*folders):
    """The Rust sources below `folders`, without the tests that stand apart."""
    for folder in folders:
        yield from (p for p in sorted((ROOT / folder).rglob("*.rs")) if "tests" not in p.relative_to(ROOT).parts)


def variables_in_code():
    """The environment variables that code reads."""
    found = set()
    for path in rust_sources("crates", "bench"):
        found.update(re.findall(r'"(QUAVER_[A-Z_]*[A-Z])"', path.read_text(encoding="utf-8")))
    for path in sorted((ROOT / "go").rglob("*.go")):
        if not path.name.endswith("_test.go"):
            found.update(re.findall(r'etenv\("(QUAVER_[A-Z_]*[A-Z])"\)', path.read_text(encoding="utf-8")))
    return {name for name in found if name == "QUAVER_TEST_FULL" or not name.startswith("QUAVER_TEST_")}


def builder_options():
    """The methods of `quaver::Builder` that choose something."""
    text = CONFIG.read_text(encoding="utf-8")
    return set(re.findall(r"^    pub fn (\w+)\((?:mut )?self, ", text, re.M))


def build_errors():
    """The fixed part of each message that a build can fail with."""
    for path in rust_sources("crates/runtime/src"):
        text = path.read_text(encoding="utf-8")
        for body in re.findall(r"#\[error\(\s*(\"(?:[^\"\\]|\\.)*\")", text, re.S):
            yield longest_fixed_part(body.strip('"'))


def longest_fixed_part(message):
    """The longest part of a format string without arguments, as it is printed."""
    message = re.sub(r"\\\n\s*", "", message)
    return max(re.split(r"\{[^}]*\}", message), key=len).strip(" ,;:()`")


def findings():
    """The names of the findings of `quaver doctor`."""
    found = set()
    for path in rust_sources("crates/cli/src/doctor/findings"):
        text = path.read_text(encoding="utf-8")
        found.update(re.findall(r'Finding::new\(\s*GROUP,\s*"(\w+)"', text))
    return found


def libraries():
    """The crates from elsewhere that any package depends on."""
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps", "--offline"]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
    names = {d["name"] for package in metadata["packages"] for d in package["dependencies"]}
    return {name for name in names if not name.startswith("quaver")}


def missing(page, what, names, mark="`"):
    """A message for each of `names` that is not in `page` between two `mark`s."""
    text = re.sub(r"\s+", " ", page.read_text(encoding="utf-8"))
    for name in sorted(names):
        if f"{mark}{name}{mark}" not in text:
            yield f"{page.relative_to(ROOT)}: {what} {name!r} is missing"


def variables_in_scripts():
    """The environment variables that the shell scripts of the tests and the emulated machine read."""
    found = set()
    for path in [ROOT / "scripts/test.sh", *sorted((ROOT / "vm").rglob("*.sh"))]:
        found.update(re.findall(r"\$\{(QUAVER_[A-Z_]*[A-Z])\b", path.read_text(encoding="utf-8")))
    return found


def unknown_variables():
    """A message for each variable that a page mentions and nothing reads."""
    headers = [ROOT / "crates/capi/include/quaver.h", ROOT / "kmod/quaver.h"]
    known = variables_in_code() | variables_in_scripts()
    for header in headers:
        known |= set(re.findall(r"\bQUAVER_\w+", header.read_text(encoding="utf-8")))
    for page in pages():
        for name in set(re.findall(r"\bQUAVER_[A-Z_]*[A-Z]\b", page.read_text(encoding="utf-8"))):
            if name not in known and name not in {"QUAVER_TEST_FULL"}:
                yield f"{page.relative_to(ROOT)}: nothing reads {name}"


def unexpected_variables():
    """A message for each variable that code reads and that `Builder::from_env` would take for a misspelt one."""
    known = SETTINGS.read_text(encoding="utf-8") + FROM_TEXT.read_text(encoding="utf-8")
    for name in sorted(variables_in_code()):
        if f'"{name}"' not in known:
            yield f"{FROM_TEXT.relative_to(ROOT)}: the variable {name} is missing in OTHERS"


def unknown_findings():
    """A message for each finding that the page explains and nothing reports."""
    text = TROUBLESHOOTING.read_text(encoding="utf-8").partition("\n## Findings")[2]
    for name in set(re.findall(r"^\* `(\w+)`:", text, re.M)) - findings():
        yield f"{TROUBLESHOOTING.relative_to(ROOT)}: `quaver doctor` does not report {name!r}"


def complaints():
    """Everything that is wrong."""
    yield from broken_links()
    yield from unknown_variables()
    yield from unexpected_variables()
    yield from unknown_findings()
    yield from missing(CONFIGURATION, "the variable", variables_in_code())
    yield from missing(CONFIGURATION, "the builder option", builder_options())
    yield from missing(TROUBLESHOOTING, "the message", build_errors(), mark="")
    yield from missing(TROUBLESHOOTING, "the finding", findings())
    yield from missing(ARCHITECTURE, "the library", libraries())


def main():
    found = list(complaints())
    for complaint in found:
        print(complaint, file=sys.stderr)
    if not found:
        print(f"{len(list(pages()))} pages: links lead somewhere, lists are complete")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
