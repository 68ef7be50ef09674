#!/usr/bin/env bash
# Sends a campaign through ten seconds of each kind of fault, and prints what became of its rows.
#
#   Benchmarks/outages.sh [--rows n] [--seconds n] [--after n] [--in-flight n] [--tasks n] [--only text]
# shellcheck source=ci/lib/common.sh
. "$(dirname "$0")/../ci/lib/common.sh"
ci/lib/install-packages build
swift build -c release --package-path Benchmarks --product throughput
Benchmarks/.build/release/throughput outages "$@"
