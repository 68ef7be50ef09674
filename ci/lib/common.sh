# Sourced by the scripts of this folder's neighbours. It goes to the root of the repository, prints a script's first
# comment for --help, and knows where things are built.

set -euo pipefail
called=$(realpath "$0")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
if [ "${1:-}" = --help ] || [ "${1:-}" = -h ]; then
    awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$called"
    exit 0
fi

# Where the root package is built. `.build` is the user's own folder: without traits, as a user builds. Any other folder
# has all traits, so that one build serves the tests, the documentation, the pages and the examples.
export BUILD=${BUILD:-.build-ci}
# Makes warnings errors. Not in the folder of users, whose build must not fail for a warning of a newer compiler.
if [ "$BUILD" != .build ]; then export WARNINGS_AS_ERRORS=1; fi
# Where the relay and its tests are built.
export RELAY_BUILD=${RELAY_BUILD:-Relay/.build}

root_package() {
    echo --scratch-path "$BUILD"
    if [ "$BUILD" != .build ]; then echo --traits YAML,Sealing; fi
}

relay_package() { echo --package-path Relay --scratch-path "$RELAY_BUILD"; }

# newer FILE FOLDER…: whether FILE was built after the last change in the folders. `swift build` takes seconds to find that
# there is nothing to do. The time of a build is that of FILE.built: if FILE itself were touched, the next build would link
# it again and compile the tests that use it.
newer() {
    [ -e "$1" ] && [ -e "$1.built" ] &&
        [ -z "$(find "${@:2}" -type f -newer "$1.built" -not -path '*/.build*' -print -quit)" ]
}

# tool: builds the tool `apns` unless it is new, and sets APNS to its path.
tool() {
    APNS=${APNS:-$BUILD/debug/apns}
    if [ "$APNS" = "$BUILD/debug/apns" ] && ! newer "$APNS" Package.swift Sources; then
        ci/lib/check-swift
        ci/lib/install-packages build
        # shellcheck disable=SC2046
        ci/lib/build "$APNS" $(root_package) --product apns
        touch "$APNS.built"
    fi
    export APNS
}

# relay_programs: builds the relay and the tool that its tests use, unless they are new, and sets APNS_RELAY and APNS_TOOL.
relay_programs() {
    local name
    APNS_RELAY=${APNS_RELAY:-$RELAY_BUILD/debug/apns-relay}
    APNS_TOOL=${APNS_TOOL:-$RELAY_BUILD/debug/apns}
    for name in apns-relay apns; do
        if ! newer "$RELAY_BUILD/debug/$name" Package.swift Sources Relay/Package.swift Relay/Sources; then
            ci/lib/check-swift
            ci/lib/install-packages relay
            # shellcheck disable=SC2046
            ci/lib/build "$RELAY_BUILD/debug/$name" $(relay_package) --product "$name"
            touch "$RELAY_BUILD/debug/$name.built"
        fi
    done
    export APNS_RELAY APNS_TOOL
}

# browser: installs Chromium and Selenium where they are missing, and sets PAGE_CHROMEDRIVER and BROWSER_PYTHON.
browser() {
    ci/lib/install-packages page
    PAGE_CHROMEDRIVER=$(command -v "${PAGE_CHROMEDRIVER:-chromedriver}")
    BROWSER_PYTHON=$(ci/lib/python-tools .build-page ci/tools/page.txt)
    export PAGE_CHROMEDRIVER BROWSER_PYTHON
}

# start_simulator ARGUMENT…: starts a simulator on free ports, which ends with the script. Sets SIMULATOR_OUTPUT, the file
# with what it prints.
start_simulator() {
    SIMULATOR_OUTPUT=$(mktemp)
    "$APNS" simulator --port 0 "$@" > "$SIMULATOR_OUTPUT" &
    simulator=$!
    trap 'kill "$simulator" 2> /dev/null || true; wait "$simulator" 2> /dev/null || true; rm -f "$SIMULATOR_OUTPUT"' EXIT
}

# printed EXPRESSION: what sed's EXPRESSION finds in the simulator's output, as soon as it is there.
printed() {
    local found
    for _ in $(seq 600); do
        found=$(sed -n "$1" "$SIMULATOR_OUTPUT")
        if [ -n "$found" ]; then
            echo "$found"
            return
        fi
        kill -0 "$simulator" || return 1
        sleep 0.1
    done
    return 1
}
