#!/usr/bin/env bash
# Builds the Python package of the simulator: python/dist/quaver_sim-*.whl. `scripts/wheel.sh test` installs it in a virtual
# environment with Dask, and Ray where there is one for this Python, and runs its tests. Both use packages from PyPI.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

have python3 || scripts/setup.sh test
environment=$(target_dir)/python
if [ ! -x "$environment/bin/maturin" ]; then
    python3 -m venv "$environment" || die "python3 cannot make virtual environments; install python3-venv"
    "$environment/bin/pip" install --quiet 'maturin>=1.9,<2'
fi
export CARGO_TARGET_DIR=$environment/build
"$environment/bin/maturin" build --release --manifest-path python/Cargo.toml --out python/dist
if [ "${1:-}" = test ]; then
    "$environment/bin/pip" install --quiet --force-reinstall --no-deps python/dist/quaver_sim-*.whl
    "$environment/bin/pip" install --quiet 'dask[distributed]'
    "$environment/bin/pip" install --quiet ray || say "Ray cannot be installed: its test is left out"
    "$environment/bin/python" -B -m unittest discover -s python/tests
fi
