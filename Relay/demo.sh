#!/usr/bin/env bash
# A relay survives SIGKILL: 50,000 pushes by curl to a relay in front of a simulated APNs; the relay is killed in the
# middle and started again; then each push must have one outcome, and the simulator must have processed none twice.
#
#   Relay/demo.sh [PUSHES]
#
# APNS_TOOL and APNS_RELAY are the programs, by default those of a debug build.
# shellcheck source=ci/lib/common.sh
. "$(dirname "$0")/../ci/lib/common.sh"
relay_programs

pushes=${1:-50000}
per_request=1000
tool=$APNS_TOOL
relay=$APNS_RELAY
folder=$(mktemp -d)
simulator_pid=
relay_pid=
clean_up() {
    for pid in $relay_pid $simulator_pid; do kill -9 "$pid" 2> /dev/null || true; done
    wait 2> /dev/null || true
    rm -rf "$folder"
}
trap clean_up EXIT

wait_for() { # what it is, the file, the pattern
    for _ in $(seq 300); do
        if grep -q "$3" "$2" 2> /dev/null; then return; fi
        sleep 0.1
    done
    echo "$1 did not start:" >&2
    cat "$2" >&2
    exit 1
}

start_relay() {
    : > "$folder/relay.log"
    "$relay" serve 2> "$folder/relay.log" &
    relay_pid=$!
    wait_for "The relay" "$folder/relay.log" 'is listening'
    url=$(sed -n 's/.*url=\(http:[^ ]*\).*/\1/p' "$folder/relay.log" | head -1)
}

"$tool" simulator --port 0 --without-token --write-credentials "$folder/sim" --ledger "$folder/ledger.ndjson" \
    > "$folder/simulator.log" 2>&1 &
simulator_pid=$!
wait_for "The simulator" "$folder/simulator.log" 'simulator of APNs at'
port=$(sed -n 's/.*localhost:\([0-9]*\).*/\1/p' "$folder/simulator.log" | head -1)

export APNS_RELAY_APPS=fern
export APNS_RELAY_APP_FERN_TOPIC=com.grasscove.Fern
export APNS_RELAY_APP_FERN_ENVIRONMENTS=production
export APNS_RELAY_SERVER_PRODUCTION=localhost:$port
export APNS_RELAY_CLIENT_CA_FILE=$folder/sim/ca.pem
export APNS_RELAY_STORAGE_FILE=$folder/queue.sqlite
export APNS_RELAY_HTTP_PORT=0
start_relay
echo "A simulated APNs and a relay are running. Handing in $pushes pushes with curl, $per_request a request."

# Each request has a key for each push, so it can be repeated when its response is lost.
request() { # the number of the request
    awk -v first=$(($1 * per_request)) -v count=$per_request 'BEGIN {
        for (n = first; n < first + count; n++)
            printf "{\"app\":\"fern\",\"token\":\"%064x\",\"headers\":{\"apns-push-type\":\"alert\"},\"payload\":{\"aps\":{\"alert\":\"push %d\"}},\"idempotencyKey\":\"%d\"}\n", n, n, n
    }' > "$folder/request.ndjson"
    curl -sS --max-time 60 -o "$folder/response.json" -w '%{http_code}' -H 'content-type: application/x-ndjson' \
        --data-binary @"$folder/request.ndjson" "$url/v1/pushes" 2> /dev/null || true
}

requests=$((pushes / per_request))
middle=$((requests / 2))
for ((number = 0; number < requests; number++)); do
    if [ "$number" -eq "$middle" ]; then
        kill -9 "$relay_pid"
        wait "$relay_pid" 2> /dev/null || true
        echo "Killed the relay with SIGKILL after $((number * per_request)) pushes, and starting it again."
        start_relay
        fi
    until [ "$(request "$number")" = 202 ]; do
        if ! kill -0 "$relay_pid" 2> /dev/null; then start_relay; fi
        sleep 0.2
    done
done
echo "All $pushes pushes are acknowledged. Waiting for their outcomes."

# "queue":{"queued":0,"claimed":0,"written":0,…}, in any order.
while curl -sS "$url/v1/overview" | grep -o '"queue":{[^}]*}' | grep -q '"\(queued\|claimed\|written\)":[1-9]'; do
    sleep 0.2
done

: > "$folder/outcomes"
cursor=
while true; do
    curl -sS "$url/v1/outcomes?limit=1000${cursor:+&after=$cursor}" > "$folder/page.json"
    # One push a line: its id and its outcome.
    if grep -o '"id":"[^"]*"\|"outcome":"[^"]*"' "$folder/page.json" > "$folder/fields"; then
        cut -d'"' -f4 "$folder/fields" | paste -d' ' - - >> "$folder/outcomes"
    fi
    # The feed ends where its cursor does not change.
    next=$(grep -o '"cursor":"[0-9a-f-]*"' "$folder/page.json" | cut -d'"' -f4 | sort -n | tail -1)
    if [ -z "$next" ] || [ "$next" = "$cursor" ]; then break; fi
    cursor=$next
done
kill -INT "$simulator_pid"
wait "$simulator_pid" 2> /dev/null || true
simulator_pid=

with_outcome=$(cut -d' ' -f1 "$folder/outcomes" | sort -u | wc -l)
twice=$(cut -d' ' -f1 "$folder/outcomes" | sort | uniq -d | wc -l)
processed_twice=$(grep '"isProcessed":true' "$folder/ledger.ndjson" | grep -o '"apnsID":"[^"]*"' | sort | uniq -d | wc -l)
echo "Outcomes:"
cut -d' ' -f2 "$folder/outcomes" | sort | uniq -c
echo "Pushes with an outcome: $with_outcome, with two: $twice. Processed twice by the simulator: $processed_twice."
if [ "$with_outcome" -ne "$pushes" ] || [ "$twice" -ne 0 ] || [ "$processed_twice" -ne 0 ]; then
    echo "This is not what the relay promises." >&2
    exit 1
fi
echo "Each push has one outcome, and none was processed twice."
