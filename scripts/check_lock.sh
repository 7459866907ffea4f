#!/usr/bin/env bash
# `quaver lock`: Debian's programs give the same results with our locks; its messages; nothing of it is left.
#
#   scripts/check_lock.sh PROGRAMS    PROGRAMS is the folder of quaver and libquaver_lock_preload.so
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

programs=$(realpath "${1:?where is quaver?}")
quaver=$programs/quaver
scripts/setup.sh servers || say "without servers"
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT

# gone WHAT COMMAND...: until the command fails
gone() {
    local what=$1 i
    shift
    for ((i = 0; i < 100; i++)); do
        "$@" >/dev/null 2>&1 || return 0
        sleep 0.1
    done
    die "$what is left"
}

# says EXIT TEXT COMMAND...
says() {
    local expected=$1 text=$2 status=0
    shift 2
    timeout 60 "$@" >"$work/out" 2>&1 || status=$?
    [ "$status" -eq "$expected" ] || die "$*: exit code $status and not $expected: $(cat "$work/out")"
    [ -z "$text" ] || grep -q -e "$text" "$work/out" || die "$*: no '$text' in: $(cat "$work/out")"
}

# Exit codes and messages.
says 7 '' "$quaver" lock -- sh -c 'exit 7'
says 127 'no program' "$quaver" lock -- no-such-program
says 126 'not a program' "$quaver" lock -- /etc/passwd
says 125 'no option' "$quaver" lock --no-such-option
says 125 'QUAVER_LOCK_PRELOAD is' env QUAVER_LOCK_PRELOAD=/no/such/file "$quaver" lock -- true
if printf 'int main(void) { return 0; }\n' | cc -x c -static - -o "$work/static" 2>/dev/null; then
    says 126 'linked statically' "$quaver" lock -- "$work/static"
fi
cp "$quaver" "$programs/libquaver_lock_preload.so" "$work/"
chmod 755 "$work" "$work/quaver"
if [ "$(id -u)" -eq 0 ] && have setpriv; then
    without=(setpriv --reuid=65534 --regid=65534 --clear-groups env QUAVER_LOCKD=/nonexistent "$work/quaver")
    says 0 'locks of this program block early' "${without[@]}" lock -- true
    [ "$(wc -l <"$work/out")" -eq 1 ] || die "the reason is not said once: $(cat "$work/out")"
    says 0 '0 failed' "${without[@]}" selftest lock
    says 0 'hello' "${without[@]}" lock --no-monitor -- echo hello
    [ "$(wc -l <"$work/out")" -eq 1 ] || die "--no-monitor says something: $(cat "$work/out")"
else
    say "not tried without rights: this needs root to begin with"
fi

# What `quaver lock` starts ends with the program, however that ends.
"$quaver" lock -- sleep 100 2>"$work/out" &
server=$!
sleep 1
socket=/run/quaver-lock-$server.sock
if [ -s "$work/out" ]; then
    say "no monitor here: $(cat "$work/out")"
elif [ ! -S /run/quaver-lockd.sock ]; then
    [ -S "$socket" ] || die "nobody watches the program"
fi
kill -KILL "$server"
wait "$server" 2>/dev/null || true
gone "the socket of a killed program" test -e "$socket"
gone "the lock of its socket" test -e "$socket.lock"
server=

# The same bytes as without.
head -c 8000000 /dev/urandom >"$work/data"
seq 300000 | awk '{ print ($1 * 7919) % 300007, $1 }' >"$work/lines"
compared=()
# same COMMAND...
same() {
    have "$1" || return 0
    "$@" >"$work/native"
    timeout 300 "$quaver" lock -- "$@" >"$work/ours" || die "$* fails"
    cmp -s "$work/native" "$work/ours" || die "$* gives other bytes"
    compared+=("$1")
}
same pigz -p 8 -n -c "$work/data"
same zstd -q -T4 -c "$work/data"
same xz -T 4 -0 -c "$work/data"
same sort --parallel=8 -S 1M "$work/lines"

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}
# answers PORT
answers() {
    local i
    for ((i = 0; i < 300; i++)); do
        ! (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null || return 0
        kill -0 "$server" 2>/dev/null || die "the server ends: $(cat "$work/log")"
        sleep 0.1
    done
    die "the server does not answer: $(cat "$work/log")"
}
if have memcached && have memccapable; then
    port=$(free_port)
    "$quaver" lock -- memcached -u "$(id -un)" -l 127.0.0.1 -p "$port" -U 0 -t 4 >"$work/log" 2>&1 &
    server=$!
    answers "$port"
    says 0 'All tests passed' memccapable -h 127.0.0.1 -p "$port"
    kill "$server"
    wait "$server" 2>/dev/null || true
    server=
    compared+=(memcached)
fi
if have redis-server && have redis-benchmark; then
    port=$(free_port)
    # Its threads for input, for closing files and for freeing memory.
    "$quaver" lock -- redis-server --bind 127.0.0.1 --port "$port" --save '' --appendonly yes --dir "$work" --io-threads 4 \
        --io-threads-do-reads yes --lazyfree-lazy-user-del yes >"$work/log" 2>&1 &
    server=$!
    answers "$port"
    says 0 '' redis-benchmark -p "$port" -n 5000 -c 30 -P 16 -q -t set,get,incr,lpush
    says 0 '42' redis-cli -p "$port" eval 'return redis.call("incrby", KEYS[1], 42)' 1 a-key
    says 0 '' redis-cli -p "$port" bgsave
    says 0 '' redis-cli -p "$port" flushall async
    redis-cli -p "$port" shutdown nosave >/dev/null 2>&1 || true
    wait "$server" || die "redis-server: $(cat "$work/log")"
    server=
    compared+=(redis-server)
fi

"$quaver" selftest lock --json "$work/lock.json"
python3 -B scripts/check_json.py selftest-lock "$work/lock.json"
printf 'with our locks as without: %s\n' "${compared[*]}"
