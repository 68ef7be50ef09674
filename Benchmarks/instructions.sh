#!/usr/bin/env bash
# Instructions per push of the client, counted by valgrind: unlike times they hardly differ from run to run and from
# machine to machine, so they find a regression of a few percent. Fails if one is more than 3 % above its limit.
#
# Start-up is not counted: each figure is the difference of two runs, divided by the difference of their pushes. The
# server runs beside valgrind, not in it.
#
#   UPDATE=1        write the limits anew instead
#   ONLY=name,…     only these
#   SCRATCH_PATH    where to build (default Benchmarks/.build)
# shellcheck source=ci/lib/common.sh
. "$(dirname "$0")/../ci/lib/common.sh"
ci/lib/install-packages bench
cd Benchmarks

limits=limits.txt
tolerance=1.03
scratch=${SCRATCH_PATH:-.build}
in_flight=500
few=5000
many=25000
# Under valgrind a run takes half a minute.
run_limit=600

swift build -c release --product throughput --scratch-path "$scratch"
throughput=$scratch/release/throughput

work=$(mktemp -d)
finish() {
    # The server ends with its standard input.
    exec 9>&-
    wait
    rm -rf "$work"
}
trap finish EXIT

die() {
    echo "$1" >&2
    exit 1
}

# Valgrind cannot read the debug information that Swift writes (DWARF 5).
strip -S -o "$work/throughput" "$throughput"
throughput=$work/throughput

mkfifo "$work/input" "$work/output"
"$work/throughput" --serve < "$work/input" > "$work/output" &
exec 9> "$work/input"
{
    IFS='=' read -r _ port
    IFS='=' read -r _ ca_file
} < "$work/output" || die "the server did not start"

# counted COMMAND...: instructions of a whole run, all threads.
counted() {
    timeout "$run_limit" valgrind --tool=callgrind --callgrind-out-file=/dev/null --fair-sched=yes "$@" \
        > "$work/run" 2>&1 || {
        cat "$work/run" >&2
        die "failed under valgrind: $*"
    }
    sed -n 's/^.*Collected *: *\([0-9]*\).*/\1/p' "$work/run"
}

push_instructions() {
    local mode=$1 count=$2
    counted "$throughput" --endpoint "https://localhost:$port" --ca-file "$ca_file" --mode "$mode" \
        --deadline 3600 --pushes "$count" --in-flight "$in_flight" --format json
    grep -q "\"accepted\":$count," "$work/run" || {
        cat "$work/run" >&2
        die "$mode: not every push was accepted"
    }
}

push_figure() {
    local fewer more
    fewer=$(push_instructions "$1" "$few")
    more=$(push_instructions "$1" "$many")
    echo $(((more - fewer) / (many - few)))
}

wanted() { [[ -z ${ONLY:-} || ",$ONLY," == *",$1,"* ]]; }

limit_of() { awk -v name="$1" '$1 == name { print $2 }' "$limits"; }

is_above() { awk -v a="$1" -v b="$2" -v t="$tolerance" 'BEGIN { exit !(b > 0 && a > b * t) }'; }

misses=0
# compare NAME FIGURE: a line of the table; notes the figure, and the miss if it is one.
compare() {
    local name=$1 figure=$2 limit verdict ratio
    limit=$(limit_of "$name")
    if [ -n "${UPDATE:-}" ]; then
        {
            awk -v name="$name" '$1 != name' "$limits"
            printf '%-16s %8s\n' "$name" "$figure"
        } > "$work/limits"
        cp "$work/limits" "$limits"
        verdict=written
    elif [ -z "$limit" ]; then
        verdict="NO LIMIT"
        misses=$((misses + 1))
    else
        verdict=ok
        if is_above "$figure" "$limit"; then
            verdict="TOO MANY"
            misses=$((misses + 1))
        elif is_above "$limit" "$figure"; then
            verdict="better: UPDATE=1 lowers the limit"
        fi
    fi
    ratio=$(awk -v a="$figure" -v b="${limit:-0}" 'BEGIN { if (b > 0) printf "%+.1f %%", (a / b - 1) * 100; else printf "-" }')
    printf '%-18s %14s %14s %10s   %s\n' "$name" "$figure" "${limit:--}" "$ratio" "$verdict"
}

# Not judged: what nghttp2's own load tool needs for the same pushes.
reference() {
    local count=$1
    counted h2load -n "$count" -c 1 -m "$in_flight" -d "$work/payload" -i "$work/uris" \
        -H "apns-topic: com.grasscove.Fern" -H "apns-push-type: alert" \
        -H "apns-id: 8f1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d" -H "authorization: $(cat "$work/authorization")"
    grep -q "status codes: $count 2xx" "$work/run" || die "h2load: not every push was accepted"
}

printf '%-18s %14s %14s %10s\n' "instructions of" measured limit difference
if command -v h2load > /dev/null && wanted h2load; then
    "$throughput" --endpoint "https://localhost:$port" --write-requests "$work"
    fewer=$(reference "$few")
    more=$(reference "$many")
    printf '%-18s %14s\n' "(h2load)" $(((more - fewer) / (many - few)))
fi
for mode in prepared encoded single; do
    wanted "$mode" || continue
    figure=$(push_figure "$mode")
    limit=$(limit_of "$mode")
    # How many pushes share a write differs from run to run, by up to 2 %: what is above its limit three times is.
    for _ in 1 2; do
        is_above "$figure" "${limit:-0}" || break
        again=$(push_figure "$mode")
        [ "$again" -ge "$figure" ] || figure=$again
    done
    compare "$mode" "$figure"
done

[ "$misses" -eq 0 ] || die "$misses above the limit (Benchmarks/$limits)"
