#!/usr/bin/env bash
# Measures the relay beside the library's harness, with one simulator for both: how fast a full queue drains, as a share
# of the bulk call with pushes encoded anew (`encoded`); how fast pushes are taken in, over the size of a request; a batch
# of a million devices, with single pushes beside it; and the memory with a long queue.
#
#   PUSHES=200000   pushes of each run
#   ROUNDS=3        rounds of harness and drain, one after the other; the median counts
#   QUEUED=1000000  the length of the long queue
# shellcheck source=ci/lib/common.sh
. "$(dirname "$0")/../ci/lib/common.sh"
ci/lib/install-packages relay

pushes=${PUSHES:-200000}
rounds=${ROUNDS:-3}
queued=${QUEUED:-1000000}

swift build -c release --package-path Benchmarks --product throughput
swift build -c release --package-path Relay --product relay-bench
throughput=Benchmarks/.build/release/throughput
bench=Relay/.build/release/relay-bench

work=$(mktemp -d)
finish() {
    # The server ends with its standard input.
    exec 9>&-
    wait
    rm -rf "$work"
}
trap finish EXIT
mkfifo "$work/input" "$work/output"
"$throughput" --serve < "$work/input" > "$work/output" &
exec 9> "$work/input"
{
    IFS='=' read -r _ port
    IFS='=' read -r _ ca_file
} < "$work/output"

median() { sort -n | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'; }
for _ in $(seq "$rounds"); do
    "$throughput" --endpoint "https://localhost:$port" --ca-file "$ca_file" --mode encoded --pushes "$pushes" \
        --in-flight 1000 --format json | sed -n 's/.*"pushesPerSecond" *: *\([0-9.]*\).*/\1/p' | head -1 >> "$work/encoded"
    "$bench" drain --port "$port" --ca-file "$ca_file" --pushes "$pushes" | sed -n 's/^drained \([0-9]*\).*/\1/p' >> "$work/drain"
done
encoded=$(median < "$work/encoded")
drain=$(median < "$work/drain")
printf 'pushes a second, median of %s rounds of %s: encoded %.0f, drain %.0f, share %.2f\n' \
    "$rounds" "$pushes" "$encoded" "$drain" "$(awk "BEGIN { print $drain / $encoded }")"
"$bench" intake --pushes "$pushes"
"$bench" batch --port "$port" --ca-file "$ca_file"
"$bench" memory --queued "$queued"
