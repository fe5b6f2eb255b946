#!/usr/bin/env bash
# Looks for drift in the current folder. Exit code 4 of `connect drift` is a finding, not a failure.
set -uo pipefail

read -r -a more <<<"${CONNECT_ARGUMENTS:-}"
report=$RUNNER_TEMP/connect-drift.md

connect drift --markdown ${more[@]+"${more[@]}"} >"$report"
code=$?
{
    echo
    echo "_Seen in [this run]($CONNECT_RUN_URL)._"
} >>"$report"
{
    echo "exit-code=$code"
    echo "drift=$([[ $code == 4 ]] && echo true || echo false)"
    echo "report=$report"
} >>"$GITHUB_OUTPUT"
cat "$report" >>"$GITHUB_STEP_SUMMARY"
[[ $code == 0 || $code == 4 ]] || exit "$code"
