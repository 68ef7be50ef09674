#!/usr/bin/env bash
# Tests pushes with bash and curl: starts a simulator of APNs, sends to it, and asks what arrived. Needs a curl 7.76 or
# newer with HTTP/2.
#
#   APNS=<the tool apns> ./test.sh
set -euo pipefail

apns=${APNS:-apns}
work=$(mktemp -d)
simulator=
trap '[ -z "$simulator" ] || kill "$simulator"; rm -rf "$work"' EXIT

fail() {
    echo "error: $*" >&2
    exit 1
}

# expect <text> <output>
expect() {
    [[ $2 == *"$1"* ]] || fail "expected $1 in: $2"
}

# --- The simulator, on free ports. --without-token: pushes need no JWT.

touch "$work/log"
"$apns" simulator --port 0 --control 0 --without-token --write-credentials "$work" > "$work/log" 2>&1 &
simulator=$!
until control=$(sed -n 's|^The pushes appear at \(.*\)/$|\1|p' "$work/log") && [ -n "$control" ]; do
    kill -0 "$simulator" 2> /dev/null || fail "the simulator ended: $(cat "$work/log")"
    [ "$SECONDS" -lt 20 ] || fail "the simulator did not start: $(cat "$work/log")"
    sleep 0.1
done
. "$work/apns.env" # APNS_ENDPOINT, APNS_CA_FILE

# push <device token> <payload> [more options for curl]: prints the headers and body of the response.
push() {
    curl -si --http2 --cacert "$APNS_CA_FILE" -H 'apns-topic: com.example.app' -H 'apns-push-type: alert' \
        -d "$2" "${@:3}" "$APNS_ENDPOINT/3/device/$1"
}

# get <path>
get() {
    curl -s "$control$1"
}

# change <method> <path> [body]: fails if the simulator refuses it. A request that changes something needs the header.
change() {
    curl -s --fail-with-body -X "$1" -H 'x-apns-simulator: test' ${3:+-d "$3"} "$control$2"
}

anna=740f4707bebcf74f9b7c25d48e3358945f6aa01da5ddb387462c7eaf61bb78ad
ben=80f1a52b7c93d046e8b2f71c5a0d94e63b17f8c25d60ae49f3127b8c6e05d1f4

# --- A push arrives, with its headers and payload.

response=$(push $anna '{"aps":{"alert":{"title":"Hello"}}}' -H 'apns-priority: 5')
expect 'HTTP/2 200' "$response"
arrived=$(get "/v1/pushes/wait?count=1&token=$anna&timeoutSeconds=5")
expect '"status":200' "$arrived"
expect '"summary":"Hello"' "$arrived"
order=$(sed 's/.*"order":\([0-9]*\).*/\1/' <<< "$arrived")
expect '"apns-priority":"5"' "$(get "/v1/pushes/$order")"
expect '"payloadJSON":{"aps":{"alert":{"title":"Hello"}}}' "$(get "/v1/pushes/$order")"
echo "ok: a push arrives"

# --- Ben has removed the app: APNs answers 410 with the time since when the token is invalid.

change PUT /v1/tokens/$ben '{"state":"unregistered","sinceMilliseconds":1700000000123}' > /dev/null
response=$(push $ben '{"aps":{"alert":"Hello"}}')
expect 'HTTP/2 410' "$response"
expect '{"reason":"Unregistered","timestamp":1700000000123}' "$response"
echo "ok: an unregistered token is refused with 410"

# --- APNs is unavailable until the test removes the fault.

change POST /v1/faults '{"when":{"always":true},"effect":{"kind":"respond","reason":"ServiceUnavailable"}}' > /dev/null
expect 'HTTP/2 503' "$(push $anna '{"aps":{"alert":"Hello"}}')"
change DELETE /v1/faults
expect 'HTTP/2 200' "$(push $anna '{"aps":{"alert":"Hello"}}')"
expect '"received":1' "$(get '/v1/pushes/wait?count=2&reason=ServiceUnavailable&timeoutSeconds=0')" # one, not two
echo "ok: 503 and then 200"

# --- Two pushes with one collapse id: the device shows the second one only.

change POST /v1/reset
push $anna '{"aps":{"alert":{"title":"1:0"}}}' -H 'apns-collapse-id: game' > /dev/null
push $anna '{"aps":{"alert":{"title":"2:0"}}}' -H 'apns-collapse-id: game' > /dev/null
device=$(get "/v1/tokens/$anna/device")
expect '"title":"2:0"' "$device"
expect '"replaced":1' "$device"
[[ $device != *'"title":"1:0"'* ]] || fail "the first notification is still there: $device"
echo "ok: the device shows the second notification only"
