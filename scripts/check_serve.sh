#!/usr/bin/env bash
# The servers of `quaver serve` with other people's clients: redis-cli, redis-benchmark, memccapable, memcslap; and with
# `quaver load`. Under preemption, and each ended by a signal: scripts/check_serve.sh PROGRAMS
#
# PROGRAMS: the folder of `quaver`. Clients that are not installed are left out.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

quaver=${1:?where is quaver?}/quaver
work=$(mktemp -d)
server=
stop_all() {
    [ -z "$server" ] || kill -KILL "$server" 2>/dev/null || true
    rm -rf "$work"
}
trap stop_all EXIT

# start OPTION...: a server on any free port, which is in $address and $port afterwards.
start() {
    : >"$work/out" # the server may open it later than we look
    "$quaver" serve "$@" --port 0 >"$work/out" 2>"$work/err" &
    server=$!
    local tries
    for ((tries = 0; tries < 600; tries++)); do
        address=$(sed -n 's/^listening //p' "$work/out")
        port=${address##*:}
        [ -z "$address" ] || return 0
        kill -0 "$server" 2>/dev/null || break
        sleep 0.05
    done
    die "quaver serve $* does not listen: $(cat "$work/err")"
}

# stop SIGNAL: ends the server, which must do so in order.
stop() {
    local status=0
    kill "-$1" "$server"
    wait "$server" || status=$?
    server=
    [ "$status" -eq 0 ] || die "the server ended with status $status after SIG$1: $(cat "$work/err")"
    ! grep -i panicked "$work/err" || die "the server has panicked"
}

# expect WHAT GOT WANTED
expect() {
    [ "$2" = "$3" ] || die "$1: got '$2', expected '$3'"
}

# load OPTION...: every request must be answered.
load() {
    "$quaver" load --to "$address" --duration 500ms --warm-up 100ms --grace 20s --connections 8 "$@" \
        --json "$work/load.json" >/dev/null
    if have python3; then
        python3 -B scripts/check_json.py load "$work/load.json" >>"$work/loads" || die "quaver load $*"
    fi
}

preempted=(--workers 2 --quantum 100us)

# check_redis STORE REQUESTS
check_redis() {
    local store=$1 requests=$2 out bench
    start kv --protocol resp --store "$store" "${preempted[@]}"
    cli=(redis-cli -h "${address%:*}" -p "$port")
    expect "ping" "$("${cli[@]}" ping)" PONG
    expect "set" "$("${cli[@]}" set greeting 'hello world' ex 100)" OK
    expect "get" "$("${cli[@]}" get greeting)" 'hello world'
    expect "ttl" "$("${cli[@]}" ttl greeting)" 100
    expect "incr" "$("${cli[@]}" -r 10 incr counter | tail -n 1)" 10
    expect "RESP 3" "$("${cli[@]}" -3 get nothing)" ''
    seq 1 2000 | sed 's/.*/set key:& &/' | "${cli[@]}" --pipe >"$work/pipe" || die "redis-cli --pipe: $(cat "$work/pipe")"
    expect "iteration" "$("${cli[@]}" --scan --pattern 'key:*' | sort -u | wc -l)" 2000
    expect "range" "$("${cli[@]}" range key:1 4 | tr '\n' ' ')" 'key:1 1 key:10 10 key:100 100 key:1000 1000 '
    expect "an unknown command" "$("${cli[@]}" lpush list 1 | cut -d, -f1)" "ERR unknown command 'lpush'"
    # Closed loops of 20 connections, without and with pipelining.
    bench=(redis-benchmark -h "${address%:*}" -p "$port" -t "ping,set,get,incr,mset" -c 20 -r 1000 -q)
    for options in "-n $requests" "-n $((4 * requests)) -P 16"; do
        # shellcheck disable=SC2086 # two words each
        out=$("${bench[@]}" $options 2>&1) || die "redis-benchmark $options: $out"
        expect "redis-benchmark $options" "$(tr '\r' '\n' <<<"$out" | grep -c 'requests per second')" 6
        ! grep -i error <<<"$out" || die "redis-benchmark $options reports an error"
    done
    load --protocol resp --rate 2000 --mix get=80,set=10,incr=5,range=5 --keys 500 --rows 200 --fill
    "${cli[@]}" flushall >/dev/null
    expect "flushall" "$("${cli[@]}" dbsize)" 0
    stop TERM
    say "redis-cli and redis-benchmark pass with the store $store"
}

check_memcached() {
    start kv --protocol memcached "${preempted[@]}"
    local form out
    for form in a b; do
        out=$(memccapable -h "${address%:*}" -p "$port" "-$form" 2>&1) || die "memccapable -$form: $out"
        ! grep -q '\[FAIL\]' <<<"$out" || die "memccapable -$form: $out"
        [ "$(grep -c '\[pass\]' <<<"$out")" -ge 20 ] || die "memccapable -$form has tested little: $out"
    done
    for options in "" --binary; do
        # shellcheck disable=SC2086 # one word or none
        memcslap --servers "$address" $options --concurrency 4 --execute-number 200 --test get >"$work/slap" 2>&1 ||
            die "memcslap $options: $(cat "$work/slap")"
        ! grep -iE 'error|fail' "$work/slap" || die "memcslap $options reports an error"
    done
    load --protocol memcached --rate 2000 --mix get=90,set=10 --keys 500 --fill
    stop INT
    say "memccapable and memcslap pass"
}

check_datagrams() {
    start kv --protocol aspen-udp --fill 1000 --scan-rows 500 "${preempted[@]}"
    load --protocol aspen-udp --rate 2000 --mix get=95,range=5 --keys 1000
    stop TERM
    start analytics "${preempted[@]}"
    load --protocol aspen-udp --rate 500 --mix decay=20,ad=20,rmv=20,ppo=20,kmeans=20
    stop TERM
    say "datagram servers pass"
}

# What a server says that cannot start.
check_errors() {
    local out
    start kv --workers 1
    if out=$("$quaver" serve kv --listen "$address" 2>&1); then
        die "two servers listen at $address"
    fi
    grep -q "cannot listen at $address.*in use" <<<"$out" || die "an address in use: $out"
    stop TERM
    for wrong in "--store memory --path x" "--workers many" "--listen nowhere:x" "--max-value 1" "--store tape"; do
        # shellcheck disable=SC2086 # several words
        ! "$quaver" serve kv $wrong --port 0 >"$work/wrong" 2>&1 || die "quaver serve kv $wrong has started"
        [ -s "$work/wrong" ] || die "quaver serve kv $wrong says nothing"
    done
    if out=$("$quaver" load --protocol resp --to "$address" --rate 10 2>&1); then
        die "quaver load needs no server"
    fi
    grep -q "cannot connect to $address" <<<"$out" || die "no server: $out"
}

if have redis-cli && have redis-benchmark; then
    check_redis memory 1000
    # A transaction for each write, and not optimised here.
    check_redis redb 200
    # The store is a library of the system.
    if PATH=$PATH:/usr/sbin:/sbin ldconfig -p | grep -q librocksdb; then
        check_redis rocksdb 1000
    else
        say "librocksdb is not installed: its store is not checked"
    fi
else
    say "redis-tools is not installed: redis-cli and redis-benchmark are left out"
fi
if have memccapable && have memcslap; then
    check_memcached
else
    say "libmemcached-tools is not installed: memccapable and memcslap are left out"
fi
check_datagrams
check_errors
