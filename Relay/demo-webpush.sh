#!/usr/bin/env bash
# Web Push from pywebpush, through a relay, to a virtual device whose page shows the decrypted texts.
#
#   Relay/demo-webpush.sh [--no-wait]
#
# APNS_TOOL and APNS_RELAY are the programs, by default those of debug builds.
# shellcheck source=ci/lib/common.sh
. "$(dirname "$0")/../ci/lib/common.sh"
relay_programs

python=$(ci/lib/python-tools .build-webpush ci/tools/webpush.txt)
exec "$python" Relay/Tests/WebPushSenders/demo.py "$@"
