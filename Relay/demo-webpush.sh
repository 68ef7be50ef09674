#!/usr/bin/env bash
# Web Push from pywebpush, through a relay, to a virtual device whose page shows the decrypted texts.
#
#   Relay/demo-webpush.sh [--no-wait]
#
# APNS_TOOL and APNS_RELAY are the programs, by default those of debug builds.
set -euo pipefail
cd "$(dirname "$0")/.."

python=$(.ci/python-tools .build-webpush .ci/webpush-tools.txt)
exec "$python" Relay/Tests/WebPushSenders/demo.py "$@"
