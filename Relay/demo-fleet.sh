#!/usr/bin/env bash
# A fleet survives SIGKILL: pushes by curl to three relays that share a queue in PostgreSQL, in front of a simulated APNs.
# Every five seconds, one of the relays or the database server is killed and started again. Then each push must have one
# outcome, the same in the feeds of all relays; the simulator must have processed none twice, and must have seen one
# provider token.
#
#   Relay/demo-fleet.sh [PUSHES]
#
# The database server is started for this script, with its data in a temporary folder. APNS_TOOL and APNS_RELAY are the
# programs, by default those of a debug build.
# shellcheck source=ci/lib/common.sh
. "$(dirname "$0")/../ci/lib/common.sh"
relay_programs

pushes=${1:-200000}
per_request=1000
max_in_flight=2000
tool=$APNS_TOOL
relay=$APNS_RELAY
folder=$(mktemp -d)
database=$(mktemp -d)
killer_pid=
clean_up() {
    if [ -n "$killer_pid" ]; then kill -9 "$killer_pid" 2> /dev/null || true; fi
    for file in "$folder"/*.pid; do kill -9 "$(cat "$file")" 2> /dev/null || true; done
    wait 2> /dev/null || true
    rm -rf "$folder" "$database"
}
trap clean_up EXIT

wait_for() { # what it is, the file, the pattern
    for _ in $(seq 600); do
        if grep -q "$3" "$2" 2> /dev/null; then return; fi
        sleep 0.1
    done
    echo "$1 did not start:" >&2
    cat "$2" >&2
    exit 1
}

# The programs of PostgreSQL's server, which Debian keeps out of the PATH: those of the newest version.
programs=$(find /usr/lib/postgresql -mindepth 2 -maxdepth 2 -name bin 2> /dev/null | sort -V | tail -1)
PATH="${programs:+$programs:}$PATH"
# PostgreSQL refuses to run as root.
as_owner=()
if [ "$(id -u)" -eq 0 ]; then
    as_owner=(setpriv --reuid postgres --regid postgres --clear-groups)
    chown postgres "$database"
fi

start_database() {
    ${as_owner[@]+"${as_owner[@]}"} postgres -D "$database/data" >> "$folder/database.log" 2>&1 &
    echo $! > "$folder/database.pid"
    # The shell says nothing when it is killed.
    disown
}

# Starts the server again if it has ended: the processes of a killed server may still hold its memory.
wait_for_database() {
    for _ in $(seq 600); do
        if pg_isready -q -h "$database" -d postgres; then return; fi
        if ! kill -0 "$(cat "$folder/database.pid")" 2> /dev/null; then start_database; fi
        sleep 0.1
    done
    echo "The database did not start:" >&2
    tail -20 "$folder/database.log" >&2
    exit 1
}

start_relay() { # its number, from 1
    : > "$folder/relay-$1.log"
    "$relay" serve 2> "$folder/relay-$1.log" &
    echo $! > "$folder/relay-$1.pid"
    disown
}

# Starts a relay again that has ended, as a service manager does: it ends if it cannot reach the database at the start.
wait_for_relay() { # its number
    for _ in $(seq 1200); do
        if grep -q 'is listening' "$folder/relay-$1.log"; then return; fi
        if ! kill -0 "$(cat "$folder/relay-$1.pid")" 2> /dev/null; then
            cat "$folder/relay-$1.log" >> "$folder/ended-relays.log"
            start_relay "$1"
        fi
        sleep 0.1
    done
    echo "Relay $1 did not start:" >&2
    cat "$folder/relay-$1.log" >&2
    exit 1
}

# The address of a relay; empty while it starts.
url() { sed -n 's/.*url=\(http:[^ ]*\).*/\1/p' "$folder/relay-$1.log" | head -1; }

# Kills a process as its machine would.
end() { # the name of its file
    local pid
    pid=$(cat "$folder/$1.pid")
    kill -9 "$pid"
    while kill -0 "$pid" 2> /dev/null; do sleep 0.02; done
}

# Kills and starts again, in turn, until the file `end` is there.
kill_in_turn() {
    local turn=0
    while true; do
        for _ in $(seq 50); do
            if [ -e "$folder/end" ]; then return; fi
            sleep 0.1
        done
        if [ $((turn % 4)) -lt 3 ]; then
            end "relay-$((turn % 4 + 1))"
            start_relay $((turn % 4 + 1))
            wait_for_relay $((turn % 4 + 1))
            echo "relay" >> "$folder/kills"
        else
            end database
            start_database
            wait_for_database
            echo "database" >> "$folder/kills"
        fi
        turn=$((turn + 1))
    done
}

"$tool" simulator --port 0 --without-token-limit --write-credentials "$folder/sim" --ledger "$folder/ledger.ndjson" \
    > "$folder/simulator.log" 2>&1 &
echo $! > "$folder/simulator.pid"
wait_for "The simulator" "$folder/simulator.log" 'simulator of APNs at'
port=$(sed -n 's/.*localhost:\([0-9]*\).*/\1/p' "$folder/simulator.log" | head -1)
${as_owner[@]+"${as_owner[@]}"} env LC_ALL=C initdb -D "$database/data" -A trust -U postgres -E UTF8 \
    > "$folder/database.log" 2>&1 || {
    cat "$folder/database.log" >&2
    exit 1
}
cat >> "$database/data/postgresql.conf" << END
listen_addresses = ''
unix_socket_directories = '$database'
max_wal_size = 4GB
END
start_database
wait_for_database
# A role without further rights, as an operator creates it.
psql -h "$database" -d postgres -U postgres -qX -v ON_ERROR_STOP=1 -c "CREATE ROLE relay LOGIN" \
    -c "CREATE DATABASE apns OWNER relay TEMPLATE template0"

export APNS_RELAY_APPS=fern
export APNS_RELAY_APP_FERN_TOPIC=com.grasscove.Fern
export APNS_RELAY_APP_FERN_ENVIRONMENTS=production
APNS_RELAY_APP_FERN_KEY_FILE=$(echo "$folder"/sim/AuthKey_*.p8)
APNS_RELAY_APP_FERN_TEAM_ID=$(sed -n 's/^APNS_TEAM_ID=//p' "$folder/sim/apns.env")
export APNS_RELAY_APP_FERN_KEY_FILE APNS_RELAY_APP_FERN_TEAM_ID
export APNS_RELAY_SERVER_PRODUCTION=localhost:$port
export APNS_RELAY_CLIENT_CA_FILE=$folder/sim/ca.pem
export APNS_RELAY_HTTP_PORT=0
export APNS_RELAY_STORAGE_POSTGRES="host=$database dbname=apns user=relay"
export APNS_RELAY_DISPATCH_MAX_IN_FLIGHT=$max_in_flight
# The pushes that a killed relay has marked end as unknown after these times. The default is more than ten minutes.
export APNS_RELAY_DISPATCH_ATTEMPT_DEADLINE=5s
export APNS_RELAY_DISPATCH_SETTLE_MARGIN=15s
for number in 1 2 3; do
    start_relay $number
    wait_for_relay $number
done
echo "A simulated APNs, a database server and three relays are running. Handing in $pushes pushes with curl, \
$per_request a request, while something is killed every five seconds."
SECONDS=0
: > "$folder/kills"
kill_in_turn 2>> "$folder/killer.log" &
killer_pid=$!

# Each request has a key for each push, so it can be repeated when its response is lost.
write_request() { # the number of the request
    awk -v first=$(($1 * per_request)) -v count=$per_request 'BEGIN {
        for (n = first; n < first + count; n++)
            printf "{\"app\":\"fern\",\"token\":\"%064x\",\"headers\":{\"apns-push-type\":\"alert\"},\"payload\":{\"aps\":{\"alert\":\"push %d\"}},\"idempotencyKey\":\"%d\"}\n", n, n, n
    }' > "$folder/request.ndjson"
}

post() { # the address of a relay
    curl -sS --max-time 60 -o "$folder/response.json" -w '%{http_code}' -H 'content-type: application/x-ndjson' \
        --data-binary @"$folder/request.ndjson" "$1/v1/pushes" 2> /dev/null || true
}

requests=$(((pushes + per_request - 1) / per_request))
pushes=$((requests * per_request))
turn=0
repeated=0
for ((number = 0; number < requests; number++)); do
    write_request "$number"
    while true; do
        turn=$((turn % 3 + 1))
        address=$(url $turn)
        if [ -n "$address" ] && [ "$(post "$address")" = 202 ]; then break; fi
        repeated=$((repeated + 1))
        sleep 0.1
    done
done
echo "All $pushes pushes are acknowledged after $SECONDS s; $repeated requests were repeated at another relay."

# Whether every push that a relay knows has its outcome. "queue":{"queued":0,"claimed":0,"written":0,…}, in any order.
is_settled() { # the number of the relay
    local address
    address=$(url "$1")
    [ -n "$address" ] || return 1
    curl -sS --max-time 60 "$address/v1/overview" 2> /dev/null | grep -o '"queue":{[^}]*}' > "$folder/depth" || return 1
    ! grep -q '"\(queued\|claimed\|written\)":[1-9]' "$folder/depth"
}

# One push a line: its id and its outcome.
read_feed() { # the number of the relay
    local address cursor= next
    address=$(url "$1")
    : > "$folder/feed-$1"
    while true; do
        curl -sS "$address/v1/outcomes?limit=1000${cursor:+&after=$cursor}" > "$folder/page.json"
        if grep -o '"id":"[^"]*"\|"outcome":"[^"]*"' "$folder/page.json" > "$folder/fields"; then
            cut -d'"' -f4 "$folder/fields" | paste -d' ' - - >> "$folder/feed-$1"
        fi
        # The feed ends where its cursor does not change.
        next=$(grep -o '"cursor":"[0-9a-f-]*"' "$folder/page.json" | cut -d'"' -f4 | sort -n | tail -1)
        if [ -z "$next" ] || [ "$next" = "$cursor" ]; then return; fi
        cursor=$next
    done
}

# Something is killed until the first relay sees an outcome for each push.
limit=$((SECONDS + 900))
until is_settled 1 || [ "$SECONDS" -gt "$limit" ] || ! kill -0 "$killer_pid" 2> /dev/null; do sleep 0.2; done
touch "$folder/end"
wait "$killer_pid" || {
    cat "$folder/killer.log" >&2
    exit 1
}
killer_pid=
for number in 1 2 3; do
    until is_settled $number || [ "$SECONDS" -gt "$limit" ]; do sleep 0.2; done
done
seconds=$SECONDS
for number in 1 2 3; do read_feed $number; done
simulator_pid=$(cat "$folder/simulator.pid")
kill -INT "$simulator_pid"
wait "$simulator_pid" 2> /dev/null || true
rm "$folder/simulator.pid"

with_outcome=$(cut -d' ' -f1 "$folder/feed-1" | sort -u | wc -l)
twice=$(cut -d' ' -f1 "$folder/feed-1" | sort | uniq -d | wc -l)
unknown=$(grep -c ' unknown$' "$folder/feed-1" || true)
processed_twice=$(grep '"isProcessed":true' "$folder/ledger.ndjson" | grep -o '"apnsID":"[^"]*"' | sort | uniq -d | wc -l)
tokens=$(sed -n 's/.*, \([0-9]*\) provider tokens.*/\1/p' "$folder/simulator.log")
relay_kills=$(grep -c relay "$folder/kills" || true)
database_kills=$(grep -c database "$folder/kills" || true)
is_same=yes
for number in 2 3; do cmp -s "$folder/feed-1" "$folder/feed-$number" || is_same=no; done
echo "Killed with SIGKILL: relays $relay_kills times, the database $database_kills times. Outcomes after $seconds s:"
cut -d' ' -f2 "$folder/feed-1" | sort | uniq -c
echo "Pushes without an outcome: $((pushes - with_outcome)), with two: $twice, unknown: $unknown."
echo "The same in the feeds of all relays: $is_same. Processed twice by the simulator: $processed_twice. \
Provider tokens presented to it: ${tokens:-0}."
if [ "$with_outcome" -ne "$pushes" ] || [ "$twice" -ne 0 ] || [ "$processed_twice" -ne 0 ] || [ "$is_same" = no ] \
    || [ "${tokens:-0}" -ne 1 ] || [ "$unknown" -gt $((relay_kills * max_in_flight)) ]; then
    echo "This is not what the relays promise." >&2
    exit 1
fi
echo "Each push has one outcome, and none was processed twice."
