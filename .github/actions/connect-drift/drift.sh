#!/usr/bin/env bash
# Looks for drift in the current folder. Exit code 4 of `connect drift` is a finding, not a failure.
set -uo pipefail
shared=$(dirname "${BASH_SOURCE[0]}")/..
# shellcheck source=.github/actions/steps.sh
. "$shared/steps.sh"

read -r -d "" -a more <<<"${CONNECT_ARGUMENTS:-}"
report=$RUNNER_TEMP/connect-drift.md
told=$RUNNER_TEMP/connect-drift.txt

connect drift --markdown ${more[@]+"${more[@]}"} >"$report" 2>"$told"
code=$?
quietly cat "$told"
if [[ ! -s $report ]]; then
    {
        echo "**Nobody knows whether there is drift:** \`connect drift\` ended with exit code $code."
        echo
        python3 "$shared/quoted.py" "$told"
    } >"$report"
fi
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
