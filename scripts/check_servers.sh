#!/usr/bin/env bash
# Debian's memcached, redis-server and nginx on user threads answer their clients as they do natively:
#
#   scripts/check_servers.sh PROGRAMS    PROGRAMS is the folder of quaver and libquaver_shim.so; ONLY="redis" tries some
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

quaver=${1:?where is quaver?}/quaver
scripts/setup.sh servers
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT

# A port that nobody has at this moment.
free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# start PORT COMMAND...: until it answers
start() {
    local port=$1 i
    shift
    "$@" >"$work/log" 2>&1 &
    server=$!
    for ((i = 0; i < 600; i++)); do
        ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || return 0
        kill -0 "$server" 2>/dev/null || die "$*: $(cat "$work/log")"
        sleep 0.1
    done
    die "$* does not answer: $(cat "$work/log")"
}

stop() {
    kill "$server"
    wait "$server" 2>/dev/null || true
    server=
}

# asks NAME COMMAND...: the client is content
asks() {
    local name=$1
    shift
    timeout 300 "$@" >"$work/out" 2>&1 || die "$name: $* fails: $(tail -n 30 "$work/out" "$work/log")"
}

# contains TEXT: the client has said so
contains() { grep -q "$1" "$work/out" || die "no '$1' in: $(tail -n 30 "$work/out")"; }

memcached() {
    local port
    port=$(free_port)
    start "$port" "$@" memcached -u "$(id -un)" -l 127.0.0.1 -p "$port" -U 0 -t 4
    asks "$*" memccapable -h 127.0.0.1 -p "$port"
    contains 'All tests passed'
    stop
}

redis() {
    local port
    port=$(free_port)
    rm -f "$work/dump.rdb"
    start "$port" "$@" redis-server --bind 127.0.0.1 --port "$port" --save '' --dir "$work"
    asks "$*" redis-benchmark -p "$port" -n 5000 -c 30 -q -t ping,set,get,incr,lpush,lpop,sadd,hset,zadd,lrange,mset
    asks "$*" redis-benchmark -p "$port" -n 5000 -c 30 -P 16 -q -t set,get
    asks "$*" redis-cli -p "$port" eval 'return redis.call("incrby", KEYS[1], 42)' 1 a-key
    contains '^42$'
    # A child of fork writes it.
    asks "$*" redis-cli -p "$port" bgsave
    asks "$*" redis-cli -p "$port" shutdown nosave
    wait "$server" || die "redis-server: $(cat "$work/log")"
    server=
}

nginx() {
    local port
    port=$(free_port)
    mkdir -p "$work/www"
    head -c 50000 /dev/urandom >"$work/www/file"
    nginx_conf "$work" "127.0.0.1:$port" >"$work/nginx.conf"
    start "$port" "$@" "$(PATH=$PATH:/usr/sbin type -P nginx)" -c "$work/nginx.conf"
    asks "$*" ab -q -k -n 2000 -c 20 "http://127.0.0.1:$port/file"
    contains 'Failed requests: *0$'
    contains 'Complete requests: *2000$'
    asks "$*" curl -sS -o "$work/got" "http://127.0.0.1:$port/file"
    cmp "$work/got" "$work/www/file" || die "nginx sends something else"
    stop
}

for one in ${ONLY:-memcached redis nginx}; do
    "$one" env
    for workers in 1 2; do
        for quantum in off 1ms 50us; do
            "$one" "$quaver" run --workers "$workers" --quantum "$quantum" --
        done
    done
    printf '%s: as natively\n' "$one"
done
