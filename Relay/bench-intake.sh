#!/usr/bin/env bash
# Measures what apns.enqueue costs other programs: transactions a second of 1, 8 and 32 writers, each of which inserts a row,
# without and with a push, while each commit takes at least 3 ms; and what relays pay for looking every 100 ms.
#
#   SECONDS_EACH=5   seconds of each run
#   COMMIT_DELAY=3000   microseconds that a commit waits
#   NOTIFY=1   also with a NOTIFY in each transaction, as apns.enqueue would cost with one
#
# Starts a PostgreSQL server of its own in a temporary folder, and removes it.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${SECONDS_EACH:-5}
bin=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
PATH=$bin:$PATH
work=$(mktemp -d)
owner=()
if [ "$(id -u)" = 0 ]; then
    chown postgres "$work"
    owner=(setpriv --reuid postgres --regid postgres --clear-groups)
fi
finish() {
    "${owner[@]}" pg_ctl -D "$work/data" -m immediate stop >"$work/stop" 2>&1 || true
    rm -rf "$work"
}
trap finish EXIT
"${owner[@]}" initdb -D "$work/data" -A trust -U postgres --no-locale -E UTF8 -N >"$work/initdb"
cat >>"$work/data/postgresql.conf" <<END
listen_addresses = ''
unix_socket_directories = '$work'
commit_delay = ${COMMIT_DELAY:-3000}
commit_siblings = 0
max_wal_size = 4GB
END
"${owner[@]}" pg_ctl -D "$work/data" -l "$work/log" -w start >"$work/start"

export PGHOST=$work PGUSER=postgres PGDATABASE=postgres
psql=(psql -XqAt -v ON_ERROR_STOP=1)
{
    echo 'CREATE SCHEMA apns;'
    cat Relay/Sources/CPostgresSchema/schema/{queue,enqueue,rights}.sql
    cat <<'END'
CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, text text);
INSERT INTO apns.intake (default_deadline, max_deadline) VALUES (86400000, 86400000);
INSERT INTO apns.app VALUES ('fern', 'com.example.fern', '{production}', 'production');
SELECT apns.enqueue('fern', 'ab', '{"aps":{"alert":"hello"}}');
END
} | "${psql[@]}" >"$work/schema"

insert="INSERT INTO orders (text) VALUES ('an order');"
push="SELECT apns.enqueue('fern', 'ab', '{\"aps\":{\"alert\":\"hello\"}}');"
printf 'BEGIN;\n%s\nCOMMIT;\n' "$insert" >"$work/without.sql"
printf 'BEGIN;\n%s\n%s\nCOMMIT;\n' "$insert" "$push" >"$work/with.sql"
printf 'BEGIN;\n%s\n%s\nNOTIFY apns;\nCOMMIT;\n' "$insert" "$push" >"$work/notify.sql"
names=(without with)
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
"${psql[@]}" -c 'VACUUM ANALYZE'
echo "SELECT * FROM apns.intake_heads((extract(epoch FROM now()) * 1000)::bigint);" >"$work/look.sql"
pgbench -n -M prepared -T "$seconds" -f "$work/look.sql" 2>&1 |
    sed -n 's/^latency average = \([0-9.]*\) ms/a look: \1 ms of one connection, ten times a second for each relay/p'
