#!/usr/bin/env bash
# What it costs a user to build a program on this library: an empty package that depends on APNSPool by path, beside the
# same program on async-http-client and swift-crypto. Packages that are resolved, C objects that are compiled, the first
# debug and the first release build, the size of the program, and what it holds while it idles. Prints a table, and writes
# it into .build/benchmarks/Benchmarks.md. About 20 minutes on two cores; fetching is not counted.
#
#   OUTPUT          where Benchmarks.md is, which gets the table (default .build/benchmarks)
#   IDLE_SECONDS=5  after which the idle process is looked at
# shellcheck source=ci/lib/common.sh
. "$(dirname "$0")/../ci/lib/common.sh"
ci/lib/install-packages build

root=$PWD
page=${OUTPUT:-.build/benchmarks}/Benchmarks.md
mkdir -p "$(dirname "$page")"
work=$(mktemp -d)
simulator=
finish() {
    # The programs end with their standard input.
    exec 8>&-
    if [ -n "$simulator" ]; then kill "$simulator" 2> /dev/null || true; fi
    wait
    rm -rf "$work"
}
trap finish EXIT

die() {
    echo "$1" >&2
    exit 1
}

# manifest NAME: one program, with what it depends on.
manifest() {
    local packages products
    case "$1" in
        APNSPool)
            packages=".package(name: \"swift-apns-pool\", path: \"$root\")"
            products='.product(name: "APNSPool", package: "swift-apns-pool")'
            ;;
        AsyncHTTPClient)
            packages='.package(url: "https://github.com/swift-server/async-http-client.git", from: "1.30.0"),
                .package(url: "https://github.com/apple/swift-crypto.git", "4.0.0"..<"6.0.0"),
                .package(url: "https://github.com/apple/swift-nio.git", from: "2.100.0"),
                .package(url: "https://github.com/apple/swift-nio-ssl.git", from: "2.30.0")'
            products='.product(name: "AsyncHTTPClient", package: "async-http-client"),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl")'
            ;;
    esac
    cat << END
// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "program",
    platforms: [.macOS(.v15)],
    dependencies: [$packages],
    targets: [.executableTarget(name: "program", dependencies: [$products])]
)
END
}

# seconds COMMAND...: CPU seconds of the command and of all that it started, and the seconds that it took.
seconds() {
    local times
    TIMEFORMAT='%U %S %R'
    times=$({ time "$@" > "$work/build.log" 2>&1; } 2>&1) || {
        tail -n 30 "$work/build.log" >&2
        return 1
    }
    awk '{ printf "%.0f s of CPU, %.0f s", $1 + $2, $3 }' <<< "$times"
}

# measure NAME: writes the figures to $work/NAME.*; 1 if its packages cannot be resolved.
measure() {
    local name=$1 package=$work/$1 binary process
    mkdir -p "$package/Sources/program"
    manifest "$name" > "$package/Package.swift"
    cp "$root/Benchmarks/Building/$name.swift" "$package/Sources/program/Program.swift"
    swift package --package-path "$package" resolve > "$work/build.log" 2>&1 || return 1
    grep -c '"identity"' "$package/Package.resolved" > "$work/$name.packages"
    echo "$name: debug" >&2
    seconds swift build --package-path "$package" > "$work/$name.debug" || die "$name: the build failed"
    find -L "$package/.build/debug" \( -name '*.c.o' -o -name '*.cc.o' -o -name '*.cpp.o' -o -name '*.S.o' \) |
        wc -l > "$work/$name.objects"
    echo "$name: release" >&2
    seconds swift build -c release --package-path "$package" > "$work/$name.release" || die "$name: the build failed"
    binary=$package/.build/release/program
    strip -o "$work/$name.stripped" "$binary"
    awk '{ printf "%.1f MB", $5 / 1e6 }' <<< "$(ls -ln "$work/$name.stripped")" > "$work/$name.size"

    mkfifo "$package/input"
    "$binary" "$port" "$APNS_CA_FILE" "$APNS_KEY_FILE" "$APNS_KEY_ID" "$APNS_TEAM_ID" < "$package/input" &
    process=$!
    exec 8> "$package/input"
    sleep "${IDLE_SECONDS:-5}"
    if [ -r "/proc/$process/status" ]; then
        awk '/^VmRSS/ { printf "%.1f MiB", $2 / 1024 }' "/proc/$process/status" > "$work/$name.memory"
    else
        echo "only on Linux" > "$work/$name.memory"
    fi
    exec 8>&-
    wait "$process" || die "$name: the push was not accepted"
}

swift build --product apns
.build/debug/apns simulator --port 0 --without-token-limit --write-credentials "$work/credentials" > "$work/simulator.log" &
simulator=$!
for _ in $(seq 100); do
    [ -s "$work/credentials/apns.env" ] && grep -q '^Ctrl-C' "$work/simulator.log" && break
    sleep 0.1
done
. "$work/credentials/apns.env" || die "the simulator did not start"
port=${APNS_ENDPOINT##*:}

measure APNSPool || die "the packages cannot be resolved: $(tail -n 3 "$work/build.log")"
columns=(APNSPool)
if measure AsyncHTTPClient; then
    columns+=(AsyncHTTPClient)
else
    echo "async-http-client cannot be resolved here: $(tail -n 3 "$work/build.log")" >&2
fi

row() {
    local text="| $1 |" column
    for column in "${columns[@]}"; do text+=" $(cat "$work/$column.$2") |"; done
    echo "$text"
}
{
    echo "## What it costs to build"
    echo
    echo "Written by \`Benchmarks/build.sh\` on $(date +%F), on $(getconf _NPROCESSORS_ONLN) cores of $(uname -m): a program that makes a client with a key file, sends one push and idles, in an empty package. \`async-http-client\` is the same program on that library and swift-crypto. Builds are the first ones, fetching not counted."
    echo
    if [ "${#columns[@]}" = 2 ]; then
        echo "| | \`APNSPool\` | \`async-http-client\` |"
        echo "|---|---|---|"
    else
        echo "| | \`APNSPool\` |"
        echo "|---|---|"
    fi
    row "packages resolved" packages
    row "C objects compiled" objects
    row "first debug build" debug
    row "first release build" release
    row "program, release, stripped" size
    row "resident set, idle with one connection" memory
} | tee "$work/section"
{
    # The section is the page's last.
    sed '/^## What it costs to build$/,$d' "$page"
    cat "$work/section"
} > "$work/page"
cp "$work/page" "$page"
