#!/usr/bin/env bash
# Runs the examples against a built tool. Each example starts its own simulator on free ports. Fails (status 1) if one
# of them fails. Skips Go and Java without their tools.
#
#   APNS=<the tool apns> Docs/Examples/OtherLanguages/try.sh
#
# The first run downloads Python's packages to .build-examples; no other run needs a network.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)

# All of it has five minutes, whatever hangs.
if [ -z "${TRY_IS_BOUNDED:-}" ]; then
    TRY_IS_BOUNDED=1 exec timeout --kill-after=10 300 "$0" "$@"
fi

apns=${APNS:-$root/.build/debug/apns}
[ -x "$apns" ] || {
    echo "error: $apns is missing. Build it with 'swift build --product apns', or set APNS." >&2
    exit 1
}
APNS=$(realpath "$apns")
export APNS
failed=()

# try <example> <command…>: runs the command in the example's folder.
try() {
    echo "== $1: ${*:2}"
    (cd "$here/$1" && "${@:2}") || failed+=("$1")
}

# A virtual environment with exactly the packages of requirements.txt.
venv=$root/.build-examples/python
if ! cmp -s "$here/python/requirements.txt" "$venv/requirements.txt"; then
    echo "== python: installs requirements.txt to $venv"
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q --disable-pip-version-check -r "$here/python/requirements.txt"
    cp "$here/python/requirements.txt" "$venv/requirements.txt"
fi

try curl ./test.sh
try python env PYTHONDONTWRITEBYTECODE=1 "$venv/bin/pytest" -q -p no:cacheprovider
try node node --test --test-reporter=spec
if command -v go > /dev/null; then
    try go env GOTOOLCHAIN=local GOPROXY=off go test -count=1
else
    echo "== go: skipped, because the command go is missing"
fi
if command -v keytool > /dev/null; then
    try java ./test.sh
else
    echo "== java: skipped, because the command keytool is missing"
fi

if [ ${#failed[@]} -gt 0 ]; then
    echo "FAILED: ${failed[*]}" >&2
    exit 1
fi
echo "All examples passed."
