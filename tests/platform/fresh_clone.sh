#!/usr/bin/env bash
# Does `make run` work on a fresh clone, and again, and after a kill? Prints the seconds of each start.
# Not part of the tests: it installs everything anew, which takes a minute or two.
set -euo pipefail
repo=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mktemp -d)
export EVENTR_PORT="${EVENTR_PORT:-18080}"
pid=""

finish() {
    [[ -z "$pid" ]] || kill -KILL "$pid" 2>/dev/null || true
    rm -rf "$folder"
}
trap finish EXIT

start() {
    local begin=$SECONDS
    # exec through make: the process that is started is `eventr up` itself in the end.
    make --no-print-directory run >"$folder/output" 2>&1 &
    pid=$!
    until grep -q "Eventr runs at" "$folder/output"; do
        kill -0 "$pid" 2>/dev/null || { cat "$folder/output"; exit 1; }
        sleep 0.2
    done
    [[ "$(curl -s -o /dev/null -w '%{http_code}' "http://127.0.0.1:$EVENTR_PORT/healthz")" == 200 ]]
    echo "$1: $((SECONDS - begin)) s"
}

up() { cat var/data/eventr.lock; }

git clone -q "$repo" "$folder/clone"
cd "$folder/clone"
start "first start, with the install"
kill -INT "$(up)" && wait "$pid"
start "second start"
kill -KILL "$(up)"
wait "$pid" || true
start "after a kill -9"
kill -INT "$(up)" && wait "$pid"
if git status --porcelain | grep .; then echo "the clone is not clean" >&2; exit 1; fi
pid=""
echo "fresh clone: well"
