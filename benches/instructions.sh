#!/usr/bin/env bash
# Instructions of a decision, and of serde_json's bare parse of the same bytes. Needs valgrind.
# The difference of two runs leaves one repetition, without start-up and without setting up.
set -euo pipefail
cd "$(dirname "$0")/.."

binary=$(cargo bench --bench decision --no-run --message-format=json 2>/dev/null |
    sed -n 's/.*"executable":"\([^"]*decision-[^"]*\)".*/\1/p' | tail -n 1)

count() { # what case times
    MUSTER_BENCH_REPEAT="$1 $2 $3" valgrind --tool=callgrind --callgrind-out-file=/dev/null \
        "$binary" 2>&1 | sed -n 's/.*Collected : \([0-9]*\).*/\1/p'
}

printf '%-16s %12s %12s %6s\n' case muster bare-parse ratio
for case in jobset/small jobset/typical jobset/large pod/small pod/typical pod/declared pod/large; do
    for what in muster bare-parse; do
        few=$(count "$what" "$case" 100)
        many=$(count "$what" "$case" 300)
        echo $(((many - few) / 200))
    done | { read -r muster; read -r bare
        awk -v c="$case" -v m="$muster" -v b="$bare" \
            'BEGIN { printf "%-16s %12d %12d %6.2f\n", c, m, b, m / b }'; }
done
