#!/usr/bin/env bash
# Sends a push with Push.java, with and without the simulator's certificate authority in the trust store.
#
#   APNS=<the tool apns> ./test.sh
set -euo pipefail

work=$(mktemp -d)
simulator=
trap '[ -z "$simulator" ] || kill "$simulator"; rm -rf "$work"' EXIT
touch "$work/log"
"${APNS:-apns}" simulator --port 0 --control 0 --without-token --write-credentials "$work" > "$work/log" 2>&1 &
simulator=$!
until control=$(sed -n 's|^The pushes appear at \(.*\)/$|\1|p' "$work/log") && [ -n "$control" ]; do
    kill -0 "$simulator" && [ "$SECONDS" -lt 20 ] || { cat "$work/log"; exit 1; }
    sleep 0.1
done
set -a
. "$work/apns.env"

token=740f4707bebcf74f9b7c25d48e3358945f6aa01da5ddb387462c7eaf61bb78ad
if java Push.java $token 2> "$work/error"; then echo "error: the JDK trusts the simulator"; exit 1; fi
curl -s "$control/v1/failed-connections" | grep -q 'Java needs it in a trust store'
echo "ok: the simulator explains the missing certificate authority"

keytool -importcert -noprompt -alias apns -file "$APNS_CA_FILE" -keystore "$work/trust.p12" -storepass changeit 2> /dev/null
java "-Djavax.net.ssl.trustStore=$work/trust.p12" -Djavax.net.ssl.trustStorePassword=changeit Push.java $token \
    | grep -q '^HTTP_2 200'
echo "ok: a push arrives"
