#!/usr/bin/env bash
# Programs that nobody here wrote, under `quaver run`: scripts/torture_shim.sh quick|full QUAVER.
#
# pigz, xz, sqlite3, kccachetest, memcached under load, RocksDB's db_bench: those that are installed. Each runs natively and then
# on user threads, with preemption off and at 50, 20 and 5 us, on 1 and 2 workers; results must be identical. Prints a
# table of how much longer each took than natively, and how often it was preempted. Times decide nothing.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

size=${1:-quick}
quaver=${2:-$(target_dir)/release/quaver}
case $size in
quick) megabytes=8 rows=20000 records=2000 requests=300 keys=10000 rounds=1 ;;
full) megabytes=200 rows=2000000 records=200000 requests=50000 keys=1000000 rounds=3 ;;
*) die "unknown size $size: quick and full are known" ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Something that compresses like text and like code.
python3 - "$megabytes" >"$work/data" <<'END'
import random, sys
r = random.Random(1)
words = [bytes(r.choices(range(97, 123), k=r.randrange(2, 9))) for _ in range(3000)]
out = sys.stdout.buffer
for _ in range(int(sys.argv[1])):
    block = b" ".join(r.choices(words, k=120000))[: 1 << 20]
    out.write(block[: 900000] + r.randbytes((1 << 20) - 900000))
END
cat >"$work/queries" <<END
create table t(a integer primary key, b text, c real);
with recursive r(i) as (select 1 union all select i + 1 from r where i < $rows)
    insert into t select i, hex(i * 7919), i / 3.0 from r;
create index tb on t(b);
pragma threads = 4;
create index tc on t(c desc, b);
select count(*), sum(a), min(b), max(b), round(sum(c), 3) from t;
select b, a from t order by c desc, b limit 50;
pragma integrity_check;
END

# Each program: a function that gets the command to put in front, and writes a result to standard output.
run_pigz() { "$@" pigz -c -p 4 -6 "$work/data" | sha256sum; }
run_xz() { "$@" xz -c -T4 --block-size=1MiB -1 "$work/data" | sha256sum; }
run_sqlite3() { "$@" sqlite3 :memory: <"$work/queries"; }
run_kccachetest() {
    {
        "$@" kccachetest order -th 4 -etc "$records"
        "$@" kccachetest wicked -th 8 -it 2 "$records"
        "$@" kccachetest tran -th 4 -it 2 "$records"
    } | grep -E '^(ok|error)|error'
}
run_memcached() {
    rm -f "$work/socket"
    "$@" memcached -u "$(id -un)" -s "$work/socket" -t 4 &
    local server=$! status=0
    for _ in $(seq 300); do
        [ -S "$work/socket" ] && break
        sleep 0.1
    done
    timeout 600 python3 -B scripts/memcached_load.py "$work/socket" "$requests" 16 || status=$?
    kill -TERM "$server"
    wait "$server" || true
    return "$status"
}
run_db_bench() {
    rm -rf "$work/db"
    "$@" db_bench --db="$work/db" --benchmarks=fillseq,compact --num="$keys" --seed=7 --compression_type=none >/dev/null
    "$@" db_bench --db="$work/db" --benchmarks=readrandom,readwhilewriting --use_existing_db=1 --num="$keys" \
        --threads=4 --seed=7 --compression_type=none | grep -o 'readrandom .*' | grep -o '([0-9]* of [0-9]* found)'
    "$@" ldb --db="$work/db" scan --hex | cut -d' ' -f1 | sha256sum
}

now() { date +%s%N; }
differences=0
preemptions=0
printf '%-12s %9s  %s\n' program 'native s' 'times as long, preempted: off, 50us, 20us, 5us (1 worker | 2 workers)'
for program in pigz xz sqlite3 kccachetest memcached db_bench; do
    if ! have "$program"; then
        printf '%-12s not installed: left out\n' "$program"
        continue
    fi
    start=$(now)
    "run_$program" env >"$work/native" 2>"$work/err" || die "$program fails natively: $(cat "$work/err")"
    native=$(($(now) - start))
    line=
    for workers in 1 2; do
        for quantum in off 50us 20us 5us; do
            for ((round = 0; round < rounds; round++)); do
                status=0
                start=$(now)
                "run_$program" timeout 1200 "$quaver" run --stats --clock timer-thread --workers "$workers" \
                    --quantum "$quantum" -- >"$work/shimmed" 2>"$work/err" || status=$?
                took=$(($(now) - start))
                if [ "$status" -ne 0 ] || ! cmp -s "$work/native" "$work/shimmed"; then
                    differences=$((differences + 1))
                    say "$program on $workers workers at $quantum: status $status, expected/got:"
                    diff "$work/native" "$work/shimmed" >&2 || true
                    tail -n 20 "$work/err" >&2
                fi
                count=$(sed -n 's/.* preempt_useful=\([0-9]*\).*/\1/p' "$work/err" | awk '{ n += $1 } END { print n + 0 }')
                preemptions=$((preemptions + count))
            done
            line="$line $(awk -v a="$took" -v b="$native" -v n="$count" 'BEGIN { printf "%.1fx/%d", a / b, n }')"
        done
        [ "$workers" = 2 ] || line="$line |"
    done
    printf '%-12s %9s %s\n' "$program" "$(awk -v n="$native" 'BEGIN { printf "%.2f", n / 1e9 }')" "$line"
done
printf 'preemptions %s, differences %s\n' "$preemptions" "$differences"
[ "$differences" -eq 0 ]
