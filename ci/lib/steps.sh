# Sourced by ci/run and ci/full: runs steps one after another, measures them, and goes on after a failure. LOGS is the
# folder for the output of each step.

names=()
results=()
times=()
began=$SECONDS
mkdir -p "$LOGS"

result_of() {
    local index
    for index in "${!names[@]}"; do
        if [ "${names[$index]}" = "$1" ]; then
            echo "${results[$index]}"
            return
        fi
    done
    echo missing
}

# step NAME [NEEDED…] -- COMMAND…: runs the command, unless a step that it needs has not passed. A command that cannot run
# on this machine ends with 69.
step() {
    local name=$1 start=$SECONDS result=passed needed
    local log=$LOGS/$1.log
    shift
    while [ "$1" != -- ]; do
        needed=$(result_of "$1")
        if [ "$needed" != passed ]; then result="not run: $1"; fi
        shift
    done
    shift
    if [ "$result" = passed ]; then
        printf '\n======== %s: %s\n' "$name" "$*"
        set +e
        "$@" 2>&1 | tee "$log"
        case ${PIPESTATUS[0]} in
            0) ;;
            69) result=skipped ;;
            *) result=FAILED ;;
        esac
        set -e
    fi
    names+=("$name")
    results+=("$result")
    times+=($((SECONDS - start)))
}

# Prints the tests of a log that have begun and not ended.
unfinished() {
    sed -nE -e 's/ with [0-9]+ test cases? (passed|failed) after / \1 after /' \
        -e 's/^◇ (Test .*) started\.$/1 \1/p' -e 's/^(✔|✘) (Test .*) (passed|failed) after .*/-1 \2/p' "$1" |
        awk '{ step = $1; sub(/^[^ ]+ /, "") } /^Test (case |run)/ { next } { open[$0] += step }
            END { for (test in open) if (open[test] > 0) print "not ended: " test }'
}

# Prints the table of the steps and, for each failed step, its tests that did not end and the end of its output. Returns 1
# if any step has failed.
finish() {
    local index failed=0 passed=0 skipped=0
    for index in "${!names[@]}"; do
        case ${results[$index]} in
            passed) passed=$((passed + 1)) ;;
            skipped) skipped=$((skipped + 1)) ;;
            *) failed=$((failed + 1)) ;;
        esac
        if [ "${results[$index]}" = FAILED ]; then
            printf '\n======== the last lines of %s (all of it: %s)\n' "${names[$index]}" "$LOGS/${names[$index]}.log"
            unfinished "$LOGS/${names[$index]}.log"
            tail -n 60 "$LOGS/${names[$index]}.log"
        fi
    done
    printf '\n%-18s %8s  %s\n' step seconds result
    for index in "${!names[@]}"; do
        printf '%-18s %8d  %s\n' "${names[$index]}" "${times[$index]}" "${results[$index]}"
    done
    printf '%-18s %8d\n\n' all $((SECONDS - began))
    echo "steps: $passed passed, $failed failed, $skipped skipped"
    [ "$failed" = 0 ]
}
