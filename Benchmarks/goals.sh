#!/usr/bin/env bash
# Measures memory, latency beside bulk calls, the first push of a process beside curl, and other goals. Fails if one is
# missed.
#
#   ONLY=memory,…   only these
# shellcheck source=ci/lib/common.sh
. "$(dirname "$0")/../ci/lib/common.sh"
ci/lib/install-packages goals
swift build -c release --package-path Benchmarks
Benchmarks/.build/release/throughput goals ${ONLY:+--only "$ONLY"}
