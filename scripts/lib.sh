# shellcheck shell=bash
# What the scripts here share; sourced, not run. Leaves the caller in the repository's root.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit

# Fresh installations of Rust and Go are often not in PATH before the next login.
for dir in "${CARGO_HOME:-${HOME:-/nonexistent}/.cargo}/bin" /usr/local/go/bin; do
    case ":$PATH:" in
    *":$dir:"*) ;;
    *) PATH="$PATH:$dir" ;;
    esac
done
export PATH

say() { printf '%s\n' "$*" >&2; }

die() {
    say "error: $*"
    exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# Builds everything that the scripts run, with assertions. All at once: what the members of the workspace ask of a
# dependency is then always the same. Without --tests, of which cargo test would make its own, again.
# shellcheck disable=SC2034 # for the scripts
build_all=(cargo build --locked --workspace --lib --bins --examples)
# The programs that the long forms of the tests run for hours.
# shellcheck disable=SC2034
build_fast=(cargo build --locked --profile fast -p quaver-cli -p quaver-shim -p quaver-probes -p quaver-bench-peers
    -p quaver-bench-async)

# Where cargo builds: the environment and cargo's configuration may say somewhere else than target/.
target_dir() {
    cargo metadata --format-version 1 --no-deps --offline 2>/dev/null |
        sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p' | grep . || printf '%s\n' "${CARGO_TARGET_DIR:-$root/target}"
}
