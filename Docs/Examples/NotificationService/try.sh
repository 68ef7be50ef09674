#!/usr/bin/env bash
# Tries the service against a simulated APNs: single requests, then load, SIGTERM in the middle of it, and the count of
# what became of each request. Fails (status 1) if a request that the server took has no outcome, if the simulator took a
# push whose outcome no caller received, or if anything takes too long.
#
#   APNS=<the tool apns> SERVICE=<the built service> Docs/Examples/NotificationService/try.sh
#
# REQUESTS=n (default 6000) of them, PARALLEL=n (default 64) at once.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)

# All of it has five minutes, whatever hangs.
if [ -z "${TRY_IS_BOUNDED:-}" ]; then
    TRY_IS_BOUNDED=1 exec timeout --kill-after=10 300 "$0" "$@"
fi

apns=${APNS:-$root/.build/debug/apns}
service=${SERVICE:-$here/.build/debug/NotificationService}
requests=${REQUESTS:-6000}
parallel=${PARALLEL:-64}
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

# --- A simulator that is slow like APNs, and now and then refuses a push or closes a connection.

cat > "$work/faults.json" << 'JSON'
{"seed": 11, "faults": [
  {"when": {"always": true, "deviceTokens": ["00ff00ff"]}, "effect": {"kind": "respond", "reason": "BadDeviceToken"}},
  {"when": {"always": true}, "effect": {"kind": "delay", "medianMilliseconds": 60, "spread": 0.6}},
  {"when": {"every": 40, "always": true}, "effect": {"kind": "respond", "reason": "ServiceUnavailable"}},
  {"when": {"every": 97, "always": true},
   "effect": {"kind": "respond", "reason": "Unregistered", "timestamp": 1700000000123}},
  {"when": {"skip": 500}, "effect": {"kind": "goaway"}},
  {"when": {"skip": 1500}, "effect": {"kind": "goaway"}}
]}
JSON
"$apns" simulator --port 0 --faults "$work/faults.json" --write-credentials "$work/credentials" \
    > "$work/simulator.log" 2>&1 &
simulator_pid=$!
wait_for "simulator" 20 test -s "$work/credentials/apns.env"

# --- The service.

port=$(free_port)
url=http://127.0.0.1:$port
(
    set -a
    # shellcheck disable=SC1091
    . "$work/credentials/apns.env"
    set +a
    PORT=$port DRAIN_DELAY=2 exec "$service"
) > "$work/service.log" 2>&1 &
service_pid=$!
wait_for "/ready" 20 curl -sf -m 2 "$url/ready"

# --- Requests one by one. expect <status> <text in the body> <body>

device=740f4707bebcf74f9b7c25d48e3358945f6aa01da5ddb387462c7eaf61bb78ad

expect() {
    local status
    status=$(curl -s -m 20 -o "$work/body" -w '%{http_code}' -d "$3" "$url/notifications")
    if [ "$status" != "$1" ] || ! grep -q "$2" "$work/body"; then
        fail "$3: $status $(cat "$work/body"), not $1 with $2"
    fi
}

expect 200 '"outcome":"accepted"' "{\"deviceToken\":\"$device\",\"topic\":\"com.example.app\",\"title\":\"Hello\"}"
expect 200 '"apnsID":"00000000-0000-4000-9000-000000000001"' \
    "{\"deviceToken\":\"$device\",\"topic\":\"com.example.app\",\"pushType\":\"background\",
      \"payload\":{\"aps\":{\"content-available\":1}},\"priority\":5,\"deadlineSeconds\":10,
      \"id\":\"00000000-0000-4000-9000-000000000001\"}"
expect 400 '"code":"validation"' '{"deviceToken":"no token","topic":"com.example.app","title":"Hello"}'
expect 400 'error' '{"deviceToken":'
expect 422 '"reason":"BadDeviceToken"' '{"deviceToken":"00ff00ff","topic":"com.example.app","title":"Hello"}'
curl -sf -m 5 "$url/health/apns" | grep -q '"health":"serving"' || fail "/health/apns is not serving"
# What the alert rules ask for must be there under the very name. (This client has a key and no certificate.) The client
# exports every five seconds.
has_metrics() {
    local name
    curl -sf -m 5 "$url/metrics" > "$work/metrics" || return 1
    grep -q '^apns_health{.*state="serving"} 1$' "$work/metrics" || return 1
    for name in $(grep -oE 'apns_[a-z_]+' "$root/Docs/Monitoring/alerts.yml" | sort -u); do
        [ "$name" = apns_certificate_days_left ] && continue
        grep -qE "^$name[{ ]" "$work/metrics" || return 1
    done
}
wait_for "metrics that alerts.yml asks for in /metrics" 15 has_metrics
single=2  # accepted above

# --- Load.

mkdir "$work/out"
for ((number = 1; number <= requests; number++)); do
    id=$(printf '%08x-0000-4000-8000-%012x' "$number" "$number")
    token=$(printf '%064x' "$number")
    cat << CURL
url = "$url/notifications"
data = "{\"deviceToken\":\"$token\",\"topic\":\"com.example.app\",\"title\":\"Hello\",\"id\":\"$id\"}"
output = "$work/out/$id"
write-out = "%{http_code} $id\n"
max-time = 40
next
CURL
done | sed '$d' > "$work/load"
curl --silent --parallel --parallel-max "$parallel" --config "$work/load" > "$work/results" 2> /dev/null &
load_pid=$!

answered() { [ "$(grep -c '^200 ' "$work/results")" -ge $((requests / 6)) ]; }
wait_for "load" 120 answered

# --- SIGTERM in the middle of it.

kill -TERM "$service_pid"
began=$SECONDS
not_ready() { [ "$(curl -s -m 2 -o /dev/null -w '%{http_code}' "$url/ready")" = 503 ]; }
wait_for "503 from /ready during the drain" 2 not_ready
status=0
wait "$service_pid" || status=$?
service_pid=
took=$((SECONDS - began))
[ $status -eq 0 ] || fail "the service ended with status $status"
[ $took -le 28 ] || fail "the service took $took s to end"
wait_for "end of the load" 60 bash -c "! kill -0 $load_pid 2> /dev/null"

kill -INT "$simulator_pid"
wait "$simulator_pid" || fail "the simulator ended with status $?"
simulator_pid=

# --- The comparison with the simulator's record.

answers=$(grep -vc '^000 ' "$work/results" || true)
refused=$(grep -c '^000 ' "$work/results" || true)
accepted=$(grep -c '^200 ' "$work/results" || true)
[ $((answers + refused)) -eq "$requests" ] || fail "$answers responses and $refused refused are not $requests requests"
[ "$refused" -gt 0 ] || fail "the load was over before SIGTERM: nothing was tried"

# Each response is an outcome, and the outcome of its own request.
while read -r code id; do
    [ "$code" = 000 ] && continue
    grep -q '"outcome":"' "$work/out/$id" || fail "$id: $code without an outcome"
    grep -qi "\"apnsID\":\"$id\"" "$work/out/$id" || fail "$id: the outcome of another push: $(cat "$work/out/$id")"
    case "$code:$(grep -o '"outcome":"[a-z-]*"' "$work/out/$id" | head -n 1)" in
        '200:"outcome":"accepted"' | '410:"outcome":"rejected"' | '503:"outcome":"rejected"') ;;
        *) fail "$id: $code $(cat "$work/out/$id")" ;;
    esac
done < "$work/results"

# "… pushes received, … of them accepted, …"
counted=$(sed -n 's/.* pushes received, \([0-9]*\) of them accepted.*/\1/p' "$work/simulator.log")
[ "$counted" = $((accepted + single)) ] \
    || fail "the simulator accepted $counted pushes, but $((accepted + single)) callers were told so"

echo "requests    $requests, SIGTERM after $((requests / 6)) accepted"
echo "answered    $answers: $(grep -v '^000 ' "$work/results" | cut -d ' ' -f 1 | sort | uniq -c | xargs)"
echo "not taken   $refused (connection refused)"
echo "simulator   $counted accepted, $accepted + $single callers told so"
echo "drained in  $took s"
