#!/usr/bin/env bash
# Servers on a network stack in user space answer clients on the kernel's, through a TAP interface and by AF_XDP:
# `quaver serve`, and Debian's memcached, redis-server and nginx, unmodified:
#
#   scripts/check_bypass.sh PROGRAMS    PROGRAMS is the folder of quaver and libquaver_shim.so; ONLY="redis" tries some
#
# Everything happens in a network namespace of its own, which ends with this script.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

quaver=${1:?where is quaver?}/quaver
if [ -z "${IN_NAMESPACE:-}" ]; then
    if [ ! -e /dev/net/tun ] || ! unshare --net ip link set lo up 2>/dev/null; then
        say "skipped: TAP interfaces and network namespaces need root, /dev/net/tun and the programs unshare and ip"
        exit 0
    fi
    IN_NAMESPACE=1 exec unshare --net "$0" "$@"
fi
ip link set lo up

host=10.77.0.2
# tap or afxdp, the stack's interface, the kernel's, and what the server is told
medium=
interface=
others=
net=
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill -KILL "$server" 2>/dev/null || true; rm -rf "$work"' EXIT

# within SECONDS COMMAND...: until it succeeds
within() {
    local i tries=$(($1 * 20))
    shift
    for ((i = 0; i < tries; i++)); do
        ! "$@" >/dev/null 2>&1 || return 0
        [ -z "$server" ] || kill -0 "$server" 2>/dev/null || die "the server has ended: $(cat "$work/log")"
        sleep 0.05
    done
    return 1
}

answers() { (exec 3<>"/dev/tcp/$host/$1"); }
# The interface, or the program on it.
is_there() {
    case $medium in
    tap) ip link show "$interface" ;;
    afxdp) ip link show "$interface" | grep -q xdp ;;
    esac
}
is_gone() { ! is_there; }

over_tap() {
    medium=tap interface=qvtap0 others=qvtap0
    net=tap:$interface,address=$host/24
}

over_afxdp() {
    medium=afxdp interface=qvnet0 others=qvnet1
    net=afxdp:$interface,address=$host/24
    ip link add "$interface" type veth peer name "$others"
    # Nobody cuts long segments between the two.
    ethtool -K "$others" tx off tso off gso off >/dev/null 2>&1
    ip link set "$interface" up
}

# start PORT COMMAND...: until it answers
start() {
    local port=$1
    shift
    "$@" >"$work/log" 2>&1 &
    server=$!
    within 60 is_there || die "$*: $net is not in use: $(cat "$work/log")"
    ip address replace 10.77.0.1/24 dev "$others"
    ip link set "$others" up
    within 60 answers "$port" || die "$* does not answer: $(cat "$work/log")"
}

# stop SIGNAL STATUS: nothing is left
stop() {
    local status=0
    kill "-$1" "$server"
    { wait "$server" || status=$?; } 2>/dev/null
    server=
    [ "$status" = "$2" ] || die "it ends with status $status after SIG$1: $(cat "$work/log")"
    within 10 is_gone || die "$net is still in use after SIG$1"
}

# asks COMMAND...: the client is content
asks() {
    timeout 120 "$@" >"$work/out" 2>&1 || die "$* fails: $(tail -n 30 "$work/out" "$work/log")"
}

# contains TEXT: the client has said so
contains() { grep -q "$1" "$work/out" || die "no '$1' in: $(tail -n 30 "$work/out")"; }

# has PROGRAM...: or a line that says what is left out
has() {
    local program
    for program; do
        have "$program" || { say "skipped: there is no $program"; return 1; }
    done
}

redis_clients() {
    asks redis-cli -h "$host" -p "$1" set key value
    asks redis-cli -h "$host" -p "$1" get key
    contains '^value$'
    asks redis-benchmark -h "$host" -p "$1" -n 3000 -c 30 -q -t ping,set,get
    asks redis-benchmark -h "$host" -p "$1" -n 3000 -c 30 -P 16 -q -t set,get
}

serve() {
    has redis-cli redis-benchmark || return 0
    start 6379 "$quaver" serve kv --net "$net" --workers 2
    grep -q "^listening $host:6379\$" "$work/log" || die "it does not say where it listens: $(cat "$work/log")"
    redis_clients 6379
    stop TERM 0
    say "quaver serve kv over $medium: answers redis-benchmark"
}

redis() {
    has redis-server redis-cli redis-benchmark || return 0
    start 6379 "$quaver" run --net "$net" --workers 2 -- \
        redis-server --bind "$host" --protected-mode no --save '' --dir "$work"
    redis_clients 6379
    stop TERM 0
    say "redis-server over $medium: answers redis-benchmark"
}

memcached() {
    has memcached memccapable || return 0
    start 11211 "$quaver" run --net "$net" --workers 2 -- memcached -u "$(id -un)" -l "$host" -p 11211 -U 0 -t 4
    asks memccapable -h "$host" -p 11211
    contains 'All tests passed'
    # As after a crash.
    stop KILL 137
    say "memcached over $medium: memccapable passes"
}

nginx() {
    local program
    has ab curl || return 0
    program=$(PATH=$PATH:/usr/sbin type -P nginx) || { say "skipped: there is no nginx"; return 0; }
    mkdir -p "$work/www"
    head -c 50000 /dev/urandom >"$work/www/file"
    nginx_conf "$work" "$host:8080" "sendfile on;" >"$work/nginx.conf"
    start 8080 "$quaver" run --net "$net" --workers 2 -- "$program" -c "$work/nginx.conf"
    asks ab -q -k -n 500 -c 20 "http://$host:8080/file"
    contains 'Failed requests: *0$'
    contains 'Complete requests: *500$'
    asks curl -sS -o "$work/got" "http://$host:8080/file"
    cmp "$work/got" "$work/www/file" || die "nginx sends something else"
    stop TERM 0
    say "nginx over $medium: answers ab and curl"
}

over_tap
for one in ${ONLY:-serve redis memcached nginx}; do "$one"; done
if has ethtool clang; then
    over_afxdp
    for one in ${ONLY:-serve redis memcached nginx}; do "$one"; done
fi
