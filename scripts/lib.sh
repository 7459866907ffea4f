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
build_fast=(cargo build --locked --profile fast -p quaver-cli -p quaver-shim -p quaver-lock-preload -p quaver-probes -p quaver-bench-peers
    -p quaver-bench-async)

# Where cargo builds: the environment and cargo's configuration may say somewhere else than target/.
target_dir() {
    cargo metadata --format-version 1 --no-deps --offline 2>/dev/null |
        sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p' | grep . || printf '%s\n' "${CARGO_TARGET_DIR:-$root/target}"
}

# nginx_conf FOLDER LISTEN [LINE...]: a configuration of nginx, in one process in the foreground, which serves FOLDER/www
nginx_conf() {
    local folder=$1 listen=$2 line
    shift 2
    cat <<CONF
daemon off;
master_process off;
pid $folder/nginx.pid;
error_log stderr;
events { worker_connections 256; }
http {
    access_log off;
CONF
    for line; do printf '    %s\n' "$line"; done
    for line in client_body proxy fastcgi uwsgi scgi; do printf '    %s_temp_path %s/%s;\n' "$line" "$folder" "$line"; done
    printf '    server { listen %s; root %s/www; }\n}\n' "$listen" "$folder"
}
