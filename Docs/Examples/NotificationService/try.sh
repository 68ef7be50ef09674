#!/usr/bin/env bash
# Tries the service against a simulated APNs: single requests, then messages and an announcement to all devices, SIGTERM in
# the middle of both, and a second start that sends the rest. Fails (status 1) if a request that the server took has no
# outcome, if a recipient got the announcement not at all or twice, if the simulator took a push whose outcome no caller
# received, if a dead device token stays in the store or a living one leaves it, or if anything takes too long.
#
#   APNS=<the tool apns> SERVICE=<the built service> Docs/Examples/NotificationService/try.sh
#
# DEVICES=n (default 3000, at least 2000), PARALLEL=n requests (default 32) at once.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)

# All of it has five minutes, whatever hangs.
if [ -z "${TRY_IS_BOUNDED:-}" ]; then
    TRY_IS_BOUNDED=1 exec timeout --kill-after=10 300 "$0" "$@"
fi

apns=${APNS:-$root/.build/debug/apns}
service=${SERVICE:-$here/.build/debug/NotificationService}
devices=${DEVICES:-3000}
parallel=${PARALLEL:-32}
work=$(mktemp -d)
simulator_pid=
service_pid=

end() {
    status=$?
    for pid in $service_pid $simulator_pid; do
        if kill -0 "$pid" 2> /dev/null; then kill -KILL "$pid" 2> /dev/null || true; fi
    done
    if [ $status -eq 0 ]; then rm -rf "$work"; else
        echo "FAILED. The last lines of the service's log ($work):" >&2
        tail -n 20 "$work/service.log" >&2 2> /dev/null || true
    fi
    exit $status
}
trap end EXIT

fail() {
    echo "error: $*" >&2
    exit 1
}

# Without settings, the service ends with one line, not with a crash report.
status=0
output=$(env -i PATH="$PATH" "$service" 2>&1) || status=$?
[[ $status != 0 && $output == *"APNs client settings: APNS_KEY_FILE: "* && $(wc -l <<< "$output") == 1 ]] ||
    fail "without settings, the service ends with status $status: $output"

# wait_for <what> <seconds> <command…>
wait_for() {
    local what=$1 until=$((SECONDS + $2))
    shift 2
    until "$@" > /dev/null 2>&1; do
        [ $SECONDS -lt $until ] || fail "no $what in time"
        sleep 0.05
    done
}

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
token() { printf '%064x' "$1"; }

# Every hundredth device is dead since after its registration, and the one before it since long before.
is_dead() { [ $(($1 % 100)) -eq 0 ]; }
is_back() { [ $(($1 % 100)) -eq 99 ]; }
tokens_where() {
    local number
    for ((number = 1; number <= devices; number++)); do
        if "$1" "$number"; then printf '"%s"\n' "$(token "$number")"; fi
    done | paste -s -d ,
}

# --- A simulator that is slow like APNs, and now and then refuses a push or closes a connection.

cat > "$work/faults.json" << JSON
{"seed": 11, "faults": [
  {"when": {"always": true}, "effect": {"kind": "delay", "medianMilliseconds": 60, "spread": 0.6}},
  {"when": {"always": true, "deviceTokens": [$(tokens_where is_dead)]},
   "effect": {"kind": "respond", "reason": "Unregistered", "timestamp": 4000000000000}},
  {"when": {"always": true, "deviceTokens": [$(tokens_where is_back)]},
   "effect": {"kind": "respond", "reason": "Unregistered", "timestamp": 1700000000123}},
  {"when": {"every": 400, "always": true}, "effect": {"kind": "respond", "reason": "ServiceUnavailable"}},
  {"when": {"skip": 500}, "effect": {"kind": "goaway"}},
  {"when": {"skip": 900}, "effect": {"kind": "goaway"}}
]}
JSON
"$apns" simulator --port 0 --faults "$work/faults.json" --write-credentials "$work/credentials" \
    --ledger "$work/ledger" > "$work/simulator.log" 2>&1 &
simulator_pid=$!
wait_for "simulator" 20 test -s "$work/credentials/apns.env"

# --- The service. With few streams, the announcement takes seconds.

start_service() {
    port=$(free_port)
    url=http://127.0.0.1:$port
    (
        set -a
        # shellcheck disable=SC1091
        . "$work/credentials/apns.env"
        set +a
        PORT=$port DATABASE=$work/devices.sqlite APNS_POOL_MAX_CONCURRENT_STREAMS=10 exec "$service"
    ) >> "$work/service.log" 2>&1 &
    service_pid=$!
    wait_for "/ready" 20 curl -sf -m 2 "$url/ready"
}

stop_service() {
    local began=$SECONDS status=0
    kill -TERM "$service_pid"
    wait "$service_pid" || status=$?
    service_pid=
    took=$((SECONDS - began))
    [ $status -eq 0 ] || fail "the service ended with status $status"
    [ $took -le 28 ] || fail "the service took $took s to end"
}

start_service

# --- Requests one by one. expect <method> <path> <status> <text in the body> [<body>]

expect() {
    local status
    status=$(curl -s -m 20 -X "$1" -o "$work/body" -w '%{http_code}' ${5:+-H content-type:application/json -d "$5"} "$url/$2")
    if [ "$status" != "$3" ] || { [ -n "$4" ] && ! grep -q "$4" "$work/body"; }; then
        fail "$1 $2 ${5:-}: $status $(cat "$work/body"), not $3 with $4"
    fi
}

ada=$(printf 'ad%062x' 1)
expect PUT "users/ada/devices/no-token" 400 'hexadecimal'
expect PUT "users/ada/devices/$ada" 204 ''
expect POST users/ada/messages 200 '"outcome":"accepted"' '{"title":"Hello"}'
expect POST users/ada/messages 400 'title' '{}'
expect POST users/nobody/messages 404 '"outcomes":\[\]' '{"title":"Hello"}'
expect GET live 200 ''

# --- Devices: one for each user, whose name is its number.

for ((number = 1; number <= devices; number++)); do
    printf 'url = "%s/users/%s/devices/%s"\nrequest = PUT\nwrite-out = "%%{http_code}\\n"\nnext\n' \
        "$url" "$number" "$(token "$number")"
done | sed '$d' > "$work/registrations"
stored=$(curl --silent --parallel --parallel-max "$parallel" --config "$work/registrations" 2> /dev/null | grep -c '^204$' || true)
[ "$stored" = "$devices" ] || fail "$stored of $devices registrations were stored"

# --- An announcement to all devices, and a message to each user meanwhile.

mkdir "$work/out"
for ((number = 1; number <= devices; number++)); do
    cat << CURL
url = "$url/users/$number/messages"
header = "content-type: application/json"
data = "{\"title\":\"Hello\"}"
output = "$work/out/$number"
write-out = "%{http_code} $number\n"
max-time = 40
next
CURL
done | sed '$d' > "$work/load"
expect POST announcements 202 "\"pending\":$((devices + 1))" '{"title":"Full moon tonight"}'
announcement=$(grep -o '"id":[0-9]*' "$work/body" | cut -d : -f 2)
curl --silent --parallel --parallel-max "$parallel" --config "$work/load" > "$work/results" 2> /dev/null &
load_pid=$!

count_of() { # <outcome>
    curl -s -m 5 "$url/announcements/$announcement" | { grep -oE "\"$1\":[0-9]+" || true; } | cut -d : -f 2
}
both_go_on() {
    # curl writes its list of results late.
    [ "$(find "$work/out" -size +0 | wc -l)" -ge $((devices / 30)) ] && [ "$(count_of accepted)" -ge $((devices / 20)) ]
}
wait_for "progress of messages and announcement" 120 both_go_on

# --- SIGTERM in the middle of both.

stop_service
first_took=$took
wait_for "end of the load" 60 bash -c "! kill -0 $load_pid 2> /dev/null"
refused=$(grep -c '^000 ' "$work/results" || true)
[ "$refused" -gt 0 ] || fail "the messages were over before SIGTERM: nothing was tried"

# --- The second start sends the rest of the announcement.

start_service
left=$(count_of pending)
[ "${left:-0}" -gt 0 ] || fail "the announcement was over before SIGTERM: nothing was tried"
is_finished() { [ -z "$(count_of pending)" ] && [ -n "$(count_of accepted)" ]; }
wait_for "end of the announcement" 120 is_finished
curl -s -m 5 "$url/announcements/$announcement" > "$work/counts"
stop_service
kill -INT "$simulator_pid"
wait "$simulator_pid" || fail "the simulator ended with status $?"
simulator_pid=

# --- The comparison with the simulator's ledger and with the store.

python3 "$here/compare.py" "$work" "$devices" "$ada"
echo "SIGTERM     ended the service in $first_took s, with $left recipients and $refused messages left"
