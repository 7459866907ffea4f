#!/usr/bin/env bash
# `cargo quaver` with the oldest rustc that it serves, the newest, and the next. Needs rustup and its servers. The
# toolchains are kept in the target directory, half a gigabyte each.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

home=$(target_dir)/rustup
for version in 1.85.0 stable beta; do
    toolchain=$version-x86_64-unknown-linux-gnu
    RUSTUP_HOME=$home rustup toolchain install "$toolchain" --profile minimal --no-self-update >/dev/null 2>&1 ||
        die "rustup cannot install $toolchain"
    scripts/check_cargo_quaver.sh "$toolchain" "$home"
done
