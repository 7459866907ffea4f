#!/usr/bin/env bash
# The packages for crates.io, in the order of publication: `cargo package` makes them without a warning, with licences
# and a page, and every other member of the workspace says that it is not published. `check_packages.sh full` also builds
# each from what is in its package, and asks the registry, as `cargo publish` does.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

packages=(quaver-sched quaver-macros quaver-probe-abi quaver-rsb quaver-share quaver quaver-load quaver-sim)

options=()
for package in "${packages[@]}"; do
    options+=(-p "$package")
    files=$(cargo package --list --offline --allow-dirty -p "$package")
    for file in LICENSE-MIT LICENSE-APACHE README.md; do
        grep -qx "$file" <<<"$files" || die "$package has no $file"
    done
done
log=$(mktemp)
trap 'rm -f "$log"' EXIT
cargo package --locked --offline --allow-dirty --no-verify "${options[@]}" 2>"$log" || die "$(cat "$log")"
if grep -q '^warning' "$log"; then
    die "$(cat "$log")"
fi

if [ "${1:-quick}" = full ]; then
    cargo publish --dry-run --locked --allow-dirty "${options[@]}" 2>"$log" || die "$(cat "$log")"
fi

manifests=$(cargo metadata --format-version 1 --no-deps --offline | grep -o '"manifest_path":"[^"]*"' | cut -d'"' -f4)
for manifest in $manifests; do
    package=$(sed -n 's/^name = "\(.*\)"/\1/p;T;q' "$manifest")
    case " ${packages[*]} " in
    *" $package "*) ;;
    *) grep -q '^publish = false$' "$manifest" || die "$package is not published here and lacks publish = false" ;;
    esac
done
say "${#packages[@]} packages can be made: ${packages[*]}"
