#!/usr/bin/env bash
# Measures everything and writes a page with charts to .build/benchmarks: about 13 minutes on a machine that does nothing
# else. If a goal is missed, the page is still written and says so, and the script fails.
#
#   SECONDS_PER_RUN=2   about how long each run of a sweep takes
#   SCALE=1             a part of the goals' pushes, for a try
#   OUTPUT              where Benchmarks.md and images/ go (default .build/benchmarks). A release contains that folder
#   SCRATCH_PATH        where to build (default Benchmarks/.build)
#   and what bench.sh takes
# shellcheck source=ci/lib/common.sh
. "$(dirname "$0")/../ci/lib/common.sh"
ci/lib/install-packages bench
cd Benchmarks

export SCRATCH_PATH=${SCRATCH_PATH:-.build}
output=$(realpath -m "${OUTPUT:-../.build/benchmarks}")
mkdir -p "$output"
throughput=$SCRATCH_PATH/release/throughput
status=0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# table NAME COMMAND...: what the command prints, shown and kept from the last headline on.
table() {
    local name=$1
    shift
    "$@" | tee "$work/$name.all" || status=1
    # Builds and rounds come before the table.
    awk '/^(us a push|goal |instructions of)/ { shown = 1 } shown' "$work/$name.all" > "$work/$name"
    [ -s "$work/$name" ] || {
        echo "$name: no figures" >&2
        exit 1
    }
}

table comparison ./bench.sh
for product in idle first-push; do swift build -c release --product $product --scratch-path "$SCRATCH_PATH"; done
table goals "$throughput" goals --scale "${SCALE:-1}"
table instructions ./instructions.sh
# Benchmarks/build.sh writes the page's last section.
building=$(sed -n '/^## What it costs to build$/,$p' "$output/Benchmarks.md" 2> /dev/null || true)
# In network namespaces, a router delays the packets. Elsewhere, the simulator delays its responses.
in_network=()
if reason=$(../ci/lib/network-namespaces --check); then
    in_network=(../ci/lib/network-namespaces)
else
    echo "The simulator delays its responses, because there is no router: $reason." >&2
fi
${in_network[@]+"${in_network[@]}"} "$throughput" report --output "$output" --figures "$SCRATCH_PATH/figures" \
    --seconds "${SECONDS_PER_RUN:-2}" \
    --comparison "$work/comparison" --goals "$work/goals" --instructions "$work/instructions"
if [ -n "$building" ]; then printf '\n%s\n' "$building" >> "$output/Benchmarks.md"; fi
echo "$output/Benchmarks.md"
exit "$status"
