#!/usr/bin/env bash
# Measures relays and programs on a PostgreSQL database.
#
#   Relay/bench-database.sh intake    what apns.enqueue costs other programs: transactions a second of 1, 8 and 32 writers,
#                                     each of which inserts a row, without and with a push, while each commit takes at
#                                     least 3 ms; and what relays pay for looking every 100 ms
#     NOTIFY=1         also with a NOTIFY in each transaction, as apns.enqueue would cost with one
#     COMMIT_DELAY=3000   microseconds that a commit waits
#     SECONDS_EACH=5   seconds of each run
#
#   Relay/bench-database.sh supersedes   deadlocks, and how long requests take, while clients submit pushes with one key to the
#                                     same 200 devices, and a relay sends them to a simulator
#     CLIENTS=8
#     SECONDS_EACH=15
#
#   Relay/bench-database.sh standby   how many accepted pushes a failover loses. The synchronous standby is away; the primary
#                                     is killed while requests wait for it, starts again within storage.timeout, and is
#                                     killed for good; the standby is promoted
#     REQUESTS=8       requests of each round, with 10 pushes each
#     ROUNDS=3
#
#   Relay/bench-database.sh backlog   memory of a relay while 64 clients submit 1,000 pushes at a time without a pause; then
#                                     the database hangs: how long requests take to fail
#     CLIENTS=64
#     SECONDS_EACH=30  seconds with the database, and as many while it hangs
#
# Each starts PostgreSQL servers of its own in a temporary folder, and removes them. APNS_RELAY is the relay, by default that
# of a debug build.
# shellcheck source=ci/lib/common.sh
. "$(dirname "$0")/../ci/lib/common.sh"

bin=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
PATH=$bin:$PATH
work=$(mktemp -d)
owner=()
if [ "$(id -u)" = 0 ]; then
    chown postgres "$work"
    owner=(setpriv --reuid postgres --regid postgres --clear-groups)
fi
relay_pid=
simulator_pid=
finish() {
    local pid
    for pid in $relay_pid $simulator_pid; do kill -9 "$pid" 2>/dev/null || true; done
    for file in "$work"/running-*; do
        if [ -e "$file" ]; then
            signal CONT "${file##*-}"
            stop_server "${file##*-}" || true
        fi
    done
    wait 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT
export PGHOST=$work PGUSER=postgres PGDATABASE=postgres

# Servers. Each has a number, which is its port.

# The processes of a server.
processes() {
    local postmaster
    postmaster=$(head -n 1 "$work/data-$1/postmaster.pid")
    echo "$postmaster"
    pgrep -P "$postmaster" || true
}

signal() { # the signal, the server
    # shellcheck disable=SC2046
    kill -s "$1" $(processes "$2") 2>/dev/null || true
}

start_server() {
    # The processes of a killed server may still hold its memory.
    for _ in $(seq 100); do
        if "${owner[@]}" pg_ctl -D "$work/data-$1" -o "-p $1" -l "$work/log-$1" -w start >"$work/start" 2>&1; then
            touch "$work/running-$1"
            return
        fi
        sleep 0.1
    done
    cat "$work/log-$1" >&2
    return 1
}

# Ends a server as SIGKILL does.
kill_server() {
    signal KILL "$1"
    rm "$work/running-$1"
    while pgrep -f -- "postgres -D $work/data-$1" >"$work/left"; do sleep 0.1; done
}

stop_server() {
    "${owner[@]}" pg_ctl -D "$work/data-$1" -m immediate -w stop >"$work/stop" 2>&1
    rm "$work/running-$1"
}

new_server() { # the number, lines of its configuration
    "${owner[@]}" initdb -D "$work/data-$1" -A trust -U postgres --no-locale -E UTF8 -N >"$work/initdb"
    cat >>"$work/data-$1/postgresql.conf" <<END
listen_addresses = ''
unix_socket_directories = '$work'
max_wal_size = 4GB
$2
END
    start_server "$1"
    export PGPORT=$1
}

sql() { # the number, the statement
    psql -p "$1" -XqAt -v ON_ERROR_STOP=1 -c "$2"
}

wait_until() { # the server, a query
    for _ in $(seq 600); do
        if [ "$(sql "$1" "$2")" = t ]; then return; fi
        sleep 0.1
    done
    echo "not within a minute: $2" >&2
    return 1
}

# Relay. Without a simulator, its pushes are due in an hour, so nothing is sent.

start_relay() { # its databases
    openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$work/AuthKey_ABCDE12345.p8" \
        2>"$work/openssl"
    export APNS_RELAY_APPS=fern APNS_RELAY_APP_FERN_TOPIC=com.example.fern APNS_RELAY_APP_FERN_ENVIRONMENTS=production
    export APNS_RELAY_APP_FERN_KEY_FILE=$work/AuthKey_ABCDE12345.p8 APNS_RELAY_APP_FERN_TEAM_ID=TEAM123456
    export APNS_RELAY_SERVER_PRODUCTION=${APNS_RELAY_SERVER_PRODUCTION:-localhost:9} APNS_RELAY_HTTP_PORT=0
    export APNS_RELAY_STORAGE_POSTGRES=$1 APNS_RELAY_STORAGE_PROGRESS_FILE=$work/progress
    rm -f "$work/progress"
    : >"$work/relay"
    "$APNS_RELAY" serve 2>"$work/relay" &
    relay_pid=$!
    for _ in $(seq 300); do
        url=$(sed -n 's/.*url=\(http:[^ ]*\).*/\1/p' "$work/relay" | head -n 1)
        if [ -n "$url" ]; then return; fi
        kill -0 "$relay_pid" 2>/dev/null || break
        sleep 0.1
    done
    cat "$work/relay" >&2
    return 1
}

stop_relay() {
    kill -9 "$relay_pid"
    wait "$relay_pid" 2>/dev/null || true
    relay_pid=
}

push() {
    printf '{"app":"fern","token":"00ff","headers":{"apns-push-type":"alert"},"payload":{"aps":{"alert":"hello"}},"notBefore":%s}\n' \
        "$((EPOCHSECONDS + 3600))"
}

intake() {
    local seconds=${SECONDS_EACH:-5}
    new_server 1 "commit_delay = ${COMMIT_DELAY:-3000}
commit_siblings = 0"
    {
        echo 'CREATE SCHEMA apns;'
        cat Relay/Sources/CPostgresSchema/schema/{queue,enqueue,rights}.sql
        cat <<'END'
CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, text text);
INSERT INTO apns.intake (default_deadline, max_deadline) VALUES (86400000, 86400000);
INSERT INTO apns.app VALUES ('fern', 'com.example.fern', '{production}', 'production');
SELECT apns.enqueue('fern', 'ab', '{"aps":{"alert":"hello"}}');
END
    } | psql -XqAt -v ON_ERROR_STOP=1 >"$work/schema"

    local insert="INSERT INTO orders (text) VALUES ('an order');"
    local push="SELECT apns.enqueue('fern', 'ab', '{\"aps\":{\"alert\":\"hello\"}}');"
    printf 'BEGIN;\n%s\nCOMMIT;\n' "$insert" >"$work/without.sql"
    printf 'BEGIN;\n%s\n%s\nCOMMIT;\n' "$insert" "$push" >"$work/with.sql"
    printf 'BEGIN;\n%s\n%s\nNOTIFY apns;\nCOMMIT;\n' "$insert" "$push" >"$work/notify.sql"
    local names=(without with) writers name
    if [ "${NOTIFY:-1}" = 1 ]; then names+=(notify); fi

    rate() {
        pgbench -n -c "$1" -j 2 -T "$seconds" -f "$work/$2.sql" 2>&1 | sed -n 's/^tps = \([0-9]*\).*/\1/p'
    }
    printf '%-10s' writers
    printf '%12s' "${names[@]}"
    printf '   transactions a second\n'
    for writers in 1 8 32; do
        printf '%-10s' "$writers"
        for name in "${names[@]}"; do printf '%12s' "$(rate "$writers" "$name")"; done
        printf '\n'
    done

    # The queue has many pushes of that program by now.
    sql 1 'VACUUM ANALYZE'
    echo "SELECT * FROM apns.intake_heads((extract(epoch FROM now()) * 1000)::bigint);" >"$work/look.sql"
    pgbench -n -M prepared -T "$seconds" -f "$work/look.sql" 2>&1 |
        sed -n 's/^latency average = \([0-9.]*\) ms/a look: \1 ms of one connection, ten times a second for each relay/p'
}

supersedes() {
    local end number requests=()
    relay_programs
    "$APNS_TOOL" simulator --port 0 --without-token --write-credentials "$work/sim" >"$work/simulator" 2>&1 &
    simulator_pid=$!
    for _ in $(seq 300); do
        if [ -s "$work/sim/apns.env" ]; then break; fi
        sleep 0.1
    done
    APNS_RELAY_SERVER_PRODUCTION=localhost:$(sed -n 's/.*localhost:\([0-9]*\).*/\1/p' "$work/sim/apns.env" | head -n 1)
    export APNS_RELAY_SERVER_PRODUCTION APNS_RELAY_CLIENT_CA_FILE=$work/sim/ca.pem
    new_server 1 ''
    start_relay "host=$work port=1 dbname=postgres user=postgres"
    for number in $(seq 200); do
        printf '{"app":"fern","token":"%04x","headers":{"apns-push-type":"alert"},"payload":{"aps":{"badge":1}},"supersedes":"score"}\n' \
            "$number"
    done >"$work/pushes"
    end=$((EPOCHSECONDS + ${SECONDS_EACH:-15}))
    for number in $(seq "${CLIENTS:-8}"); do
        client "$number" "$end" &
        requests+=($!)
    done
    wait "${requests[@]}" || true
    wait_until 1 "SELECT NOT EXISTS (SELECT FROM apns.push)"
    cat "$work"/answers-* | awk '$2 == 202 { print $3 }' | sort -n | awk '{ t[NR] = $1 } END {
        printf "%d requests of 200 pushes, %.3f s at the median and %.3f s at most\n", NR, t[int((NR + 1) / 2)], t[NR] }'
    printf 'deadlocks: %s\n' "$(sql 1 "SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'")"
    sql 1 "SELECT outcome || ': ' || count(*) FROM apns.outcomes GROUP BY outcome ORDER BY outcome"
    stop_relay
}

standby() {
    local round number accepted found early count=${REQUESTS:-8}
    relay_programs
    # Longer than the restart of the primary, and than the failover after it. Each request has a connection.
    export APNS_RELAY_STORAGE_TIMEOUT=60s APNS_RELAY_STORAGE_AFTER_FAILOVER=send
    export APNS_RELAY_STORAGE_CONNECTIONS=$((count + 8))
    for round in $(seq "${ROUNDS:-3}"); do
        rm -rf "$work"/data-* "$work"/answer-*
        new_server 1 ''
        "${owner[@]}" pg_basebackup -D "$work/data-2" -R -c fast -N -d "port=1 application_name=standby"
        start_server 2
        sql 1 "ALTER SYSTEM SET synchronous_standby_names = 'standby'"
        sql 1 'SELECT pg_reload_conf()' >"$work/reload"
        wait_until 1 "SELECT count(*) > 0 FROM pg_stat_replication WHERE sync_state = 'sync'"
        start_relay "host=$work,$work port=1,2 dbname=postgres user=postgres"
        # The numbers of its route are known after this, so that each call has one statement.
        push | curl -sS -H 'Content-Type: application/x-ndjson' --data-binary @- "$url/v1/pushes" >"$work/first"
        stop_server 2

        for _ in $(seq 10); do push; done >"$work/pushes"
        local requests=()
        for number in $(seq "$count"); do
            curl -s -o "$work/body-$number" -w '%{http_code}\n' --max-time 120 -H "Idempotency-Key: $number" \
                -H 'Content-Type: application/x-ndjson' --data-binary "@$work/pushes" "$url/v1/pushes" \
                >"$work/answer-$number" &
            requests+=($!)
        done
        wait_until 1 "SELECT count(*) = $count FROM pg_stat_activity
            WHERE wait_event = 'SyncRep' AND query LIKE '%apns.store(%'"
        kill_server 1
        start_server 1
        # The relay repeats its calls, and they find the pushes stored.
        wait_until 1 "SELECT count(*) = 10 * $count FROM apns.idempotency"
        for _ in $(seq 50); do
            early=$(cat "$work"/answer-* | grep -c 202 || true)
            if [ "$early" -gt 0 ]; then break; fi
            sleep 0.1
        done
        kill_server 1
        start_server 2
        sql 2 'SELECT pg_promote(true, 60)' >"$work/promote"
        wait "${requests[@]}" || true
        accepted=$({ grep -l 202 "$work"/answer-* || true; } | sed 's/.*answer-//')
        found=$(for number in $accepted; do
            sql 2 "SELECT count(*) FROM apns.idempotency i JOIN apns.push p USING (position) WHERE i.key LIKE '$number/%'"
        done | awk '{ sum += $1 } END { print sum + 0 }')
        accepted=$(($(wc -w <<<"$accepted") * 10))
        printf 'round %s: %s of %s pushes were answered with 202, %s of them before the failover; lost: %s\n' \
            "$round" "$accepted" "$((count * 10))" "$((early * 10))" "$((accepted - found))"
        stop_relay
        kill_server 2
    done
}

# Submits 1,000 pushes at a time until a moment, and notes for each request when it ended, its key, status and seconds.
client() { # its number, the end
    local number=0 answer
    while [ "$EPOCHSECONDS" -lt "$2" ]; do
        number=$((number + 1))
        answer=$(curl -s -o "$work/body-$1" -w '%{http_code} %{time_total}' --max-time 300 \
            -H "Idempotency-Key: $1-$number" -H 'Content-Type: application/x-ndjson' --data-binary "@$work/pushes" \
            "$url/v1/pushes") || true
        printf '%s %s\n' "$1-$number" "$answer" >>"$work/answers-$1"
    done
}

memory() { sed -n 's/^VmRSS:[[:space:]]*\([0-9]*\).*/\1/p' "/proc/$relay_pid/status" | awk '{ printf "%.0f", $1 / 1024 }'; }

# Prints the memory now and then until a moment.
sample() { # the moment, the seconds between two samples
    while [ "$EPOCHSECONDS" -lt "$1" ]; do
        printf '%4s s  %5s MiB  %s\n' "$SECONDS" "$(memory)" "$3"
        sleep "$2"
    done
}

backlog() {
    local seconds=${SECONDS_EACH:-30} clients=${CLIENTS:-64} number
    relay_programs
    new_server 1 'log_connections = on'
    start_relay "host=$work port=1 dbname=postgres user=postgres"
    for _ in $(seq 1000); do push; done >"$work/pushes"
    SECONDS=0
    local hang=$((EPOCHSECONDS + seconds)) requests=()
    local end=$((hang + seconds))
    for number in $(seq "$clients"); do
        client "$number" "$end" &
        requests+=($!)
    done
    sample "$hang" 5 "$clients clients, 1,000 pushes a request"
    local before
    before=$(grep -c 'connection received' "$work/log-1")
    signal STOP 1
    cat "$work"/answers-* >"$work/before"
    rm -f "$work"/answers-*
    sample "$end" 5 'the database hangs'
    wait "${requests[@]}" || true
    local failed=$SECONDS
    printf '%4s s  %5s MiB  the last request has failed\n' "$failed" "$(memory)"
    signal CONT 1
    wait_until 1 "SELECT true"
    sleep 5
    cat "$work"/answers-* >"$work/during"
    awk '{ print $3 }' "$work/before" | sort -n | awk '{ t[NR] = $1 } END {
        printf "with the database: %d requests, %.2f s at the median\n", NR, t[int((NR + 1) / 2)] }'
    awk '$2 != 202 { print $3 }' "$work/during" | sort -n | awk '{ t[NR] = $1; late += $1 > 17 } END {
        printf "while it hangs: %d requests failed, after %.1f s at the median and %.1f s at most; ", NR, t[int((NR + 1) / 2)], t[NR]
        printf "%d of them after more than 17 s: storage.timeout, one attempt to connect, and two seconds\n", late }'
    # A call whose time is over and that is begun opens a connection, or stores its pushes.
    printf 'connections that were opened since then: %s\n' "$(($(grep -c 'connection received' "$work/log-1") - before))"
    awk '$2 != 202 { print $1 }' "$work/during" >"$work/refused"
    printf 'failed requests whose pushes are stored: %s; at most as many as the relay has connections\n' "$({
        echo 'CREATE TEMP TABLE refused (request text);'
        echo 'COPY refused FROM STDIN;'
        cat "$work/refused"
        echo '\.'
        echo "SELECT count(*) FROM refused r WHERE EXISTS (SELECT FROM apns.idempotency i WHERE i.key = r.request || '/1');"
    } | psql -XqAt -v ON_ERROR_STOP=1)"
    stop_relay
}

case "${1:-}" in
    intake | supersedes | standby | backlog) "$1" ;;
    *)
        echo "usage: $0 intake | supersedes | standby | backlog" >&2
        exit 64
        ;;
esac
