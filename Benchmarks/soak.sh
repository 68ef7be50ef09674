#!/usr/bin/env bash
# Sends mixed load with faults for some hours, and prints a table of resident memory, heap, descriptors, threads, leases and
# the delay of the event loops. Fails if memory, descriptors, threads or the delay grow after the warm-up, if leases remain,
# or if an outcome is wrong.
#
#   Benchmarks/soak.sh [HOURS]     2 by default
# shellcheck source=ci/lib/common.sh
. "$(dirname "$0")/../ci/lib/common.sh"
ci/lib/install-packages build
swift build -c release --package-path Benchmarks
# Freed memory in the caches of threads would count as used, a quarter of a MiB for each thread.
GLIBC_TUNABLES=glibc.malloc.tcache_count=0 Benchmarks/.build/release/throughput soak --hours "${1:-2}"
