#!/usr/bin/env bash
# Applies the plan that was approved, in the current folder, and tells the job what came of it.
set -uo pipefail

read -r -a more <<<"${CONNECT_ARGUMENTS:-}"
report=$RUNNER_TEMP/connect-apply.txt

connect show "$PLAN_FILE"
connect apply "$PLAN_FILE" --yes ${more[@]+"${more[@]}"} 2>&1 | tee "$report"
code=${PIPESTATUS[0]}

{
    if [[ $code == 5 ]]; then
        echo "**The plan is stale: nothing was touched.** Plan again, and have it approved."
    else
        echo "\`connect apply\` ended with exit code $code."
    fi
    echo
    sed 's/^/    /' "$report" | tail -c 60000
} >>"$GITHUB_STEP_SUMMARY"
echo "exit-code=$code" >>"$GITHUB_OUTPUT"
exit "$code"
