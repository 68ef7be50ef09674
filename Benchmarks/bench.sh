#!/usr/bin/env bash
# CPU per push of this client beside that of h2load, nghttp2's own load tool, and of floor.c, the least that a client
# with paths and ids of its own can do with nghttp2's header compression.
#
# One server (the simulator) for all; client and server each on a core of their own where there are two; rounds of all
# five, interleaved, and the least of each: what disturbs a run only ever adds to it. Fails if one costs more than it may.
#
#   PUSHES=200000   pushes of each run
#   ROUNDS=5        rounds; as many again, twice at the most, while something is missed: a machine that others share may
#                   change its speed in the middle, and then one side had its quiet round and the other had not
#   SCRATCH_PATH    where to build (default Benchmarks/.build)
# shellcheck source=ci/lib/common.sh
. "$(dirname "$0")/../ci/lib/common.sh"
ci/lib/install-packages bench
cd Benchmarks

pushes=${PUSHES:-200000}
rounds=${ROUNDS:-5}
scratch=${SCRATCH_PATH:-.build}
in_flight=500
# A run of a second or two that takes this long hangs.
run_limit=60

swift build -c release --product throughput --scratch-path "$scratch"
throughput=$scratch/release/throughput

client_core=()
server_core=()
if command -v taskset > /dev/null && taskset -c 0,1 true 2> /dev/null; then
    client_core=(taskset -c 0)
    server_core=(taskset -c 1)
fi
limit=()
if command -v timeout > /dev/null; then
    limit=(timeout "$run_limit")
fi

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

# shellcheck disable=SC2046 # one word each
"${CC:-cc}" -O2 -o "$work/floor" floor.c $(pkg-config --cflags --libs libnghttp2 openssl)

mkfifo "$work/input" "$work/output"
${server_core[@]+"${server_core[@]}"} "$throughput" --serve < "$work/input" > "$work/output" &
exec 9> "$work/input"
{
    IFS='=' read -r _ port
    IFS='=' read -r _ ca_file
} < "$work/output" || die "the server did not start"
endpoint=https://localhost:$port

"$throughput" --endpoint "$endpoint" --write-requests "$work"
authorization=$(cat "$work/authorization")
payload_bytes=$(wc -c < "$work/payload")

# seconds NAME COMMAND...: user and system time of a process on the client's core; its output in $work/NAME.
TIMEFORMAT='%U %S'
seconds() {
    local name=$1
    shift
    { time ${limit[@]+"${limit[@]}"} ${client_core[@]+"${client_core[@]}"} "$@" > "$work/$name" 2> "$work/$name.errors"; } \
        2> "$work/$name.time" || {
        cat "$work/$name" "$work/$name.errors" >&2
        die "$name failed"
    }
    awk '{ print $1 + $2 }' "$work/$name.time"
}

# Each prints: whole process, microseconds a push; for ours also the harness's own figure, from connect to last outcome.
run_h2load() {
    local count=$1 time
    time=$(seconds h2load h2load -n "$count" -c 1 -m "$in_flight" -d "$work/payload" -i "$work/uris" \
        -H "apns-topic: com.grasscove.Fern" -H "apns-push-type: alert" \
        -H "apns-id: 8f1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d" -H "authorization: $authorization")
    grep -q "status codes: $count 2xx" "$work/h2load" || {
        cat "$work/h2load" >&2
        die "h2load: not every push was accepted"
    }
    awk -v t="$time" -v n="$count" 'BEGIN { printf "%.3f -\n", t * 1e6 / n }'
}

run_floor() {
    local count=$1 time
    time=$(seconds floor-run "$work/floor" "$port" "$ca_file" "$work/payload" "$authorization" "$count" "$in_flight")
    grep -q "^accepted $count$" "$work/floor-run" || die "floor: not every push was accepted"
    awk -v t="$time" -v n="$count" 'BEGIN { printf "%.3f -\n", t * 1e6 / n }'
}

run_ours() {
    local mode=$1 count=$2 time
    time=$(seconds "$mode" "$throughput" --endpoint "$endpoint" --ca-file "$ca_file" --mode "$mode" \
        --pushes "$count" --in-flight "$in_flight" --format json)
    grep -q "\"accepted\":$count," "$work/$mode" || {
        cat "$work/$mode" "$work/$mode.errors" >&2
        die "$mode: not every push was accepted"
    }
    awk -v t="$time" -v n="$count" -v own="$(sed 's/.*"cpuMicrosecondsPerPush":\([0-9.]*\).*/\1/' "$work/$mode")" \
        'BEGIN { printf "%.3f %s\n", t * 1e6 / n, own }'
}

run() {
    case "$1" in
        h2load | floor) "run_$1" "$2" ;;
        *) run_ours "$1" "$2" ;;
    esac
}

clients=(h2load floor prepared encoded single)

# Whether all of them get through at all, before minutes are spent.
for client in "${clients[@]}"; do run "$client" 2000 > /dev/null; done

least() { awk -v column="$2" 'NR == 1 || $column < least { least = $column } END { print least }' "$work/figures.$1"; }

# What each must stay below, as a multiple of the floor.
must() {
    case "$1" in
        prepared) echo 1.3 ;;
        encoded) echo 1.9 ;;
        single) echo 2.8 ;;
        *) echo - ;;
    esac
}

# Runs so many further rounds.
done_rounds=0
run_rounds() {
    local round client figures line
    for round in $(seq $((done_rounds + 1)) $((done_rounds + rounds))); do
        line="round $round:"
        for client in "${clients[@]}"; do
            figures=$(run "$client" "$pushes")
            echo "$figures" >> "$work/figures.$client"
            line+="  $client ${figures%% *}"
        done
        echo "$line"
    done
    done_rounds=$((done_rounds + rounds))
}

# ratio CLIENT OTHER
ratio() { awk -v a="$(least "$1" 1)" -v b="$(least "$2" 1)" 'BEGIN { printf "%.2f", a / b }'; }

# Judged as it is printed, so that no line contradicts itself.
is_missed() { awk -v r="$(ratio "$1" floor)" -v bound="$2" 'BEGIN { exit !(r > bound) }'; }

count_missed() {
    local client bound
    missed=0
    for client in "${clients[@]}"; do
        bound=$(must "$client")
        if [ "$bound" != - ] && is_missed "$client" "$bound"; then missed=$((missed + 1)); fi
    done
}

echo "$rounds rounds of $pushes pushes, $in_flight in flight, one connection, payload of $payload_bytes bytes"
for _ in 1 2 3; do
    run_rounds
    count_missed
    [ "$missed" -gt 0 ] || break
done

echo
printf '%-10s %12s %16s %10s %8s %8s\n' "us a push" "whole run" "from connect on" "x h2load" "x floor" "must be"
for client in "${clients[@]}"; do
    bound=$(must "$client")
    verdict=
    if [ "$bound" != - ]; then
        verdict=ok
        if is_missed "$client" "$bound"; then verdict=MISSED; fi
    fi
    printf '%-10s %12s %16s %10s %8s %8s   %s\n' "$client" "$(least "$client" 1)" "$(least "$client" 2)" \
        "$(ratio "$client" h2load)" "$(ratio "$client" floor)" "$bound" "$verdict"
done
[ "$missed" -eq 0 ] || die "$missed missed"
