#!/usr/bin/env bash
# Applies the plan that was approved, in the current folder, and tells the job what came of it: in its
# summary, and in $RUNNER_TEMP/connect-apply.md for a comment.
set -uo pipefail
shared=$(dirname "${BASH_SOURCE[0]}")/..
# shellcheck source=.github/actions/steps.sh
. "$shared/steps.sh"

read -r -d "" -a more <<<"${CONNECT_ARGUMENTS:-}"
report=$RUNNER_TEMP/connect-apply.txt
until=$((SECONDS + ${WAIT_S:-600}))

apply() {
    connect apply "$PLAN_FILE" --yes ${more[@]+"${more[@]}"} 2>&1 | tee "$report"
    return "${PIPESTATUS[0]}"
}

# Another apply is running, such as that of a merge just before: wait for it
while quietly apply; code=$?; [[ $code == 3 ]] && grep -q '^error\[apply.leased\]' "$report"; do
    ((SECONDS < until)) || break
    echo "waiting for the other apply"
    sleep "${WAIT_STEP_S:-10}"
done

# Whether it began: then it ends with a report
begun=$(grep -q '^Apply failed: ' "$report" && echo begun)

{
    case $code$begun in
    0) echo "**Applied.**" ;;
    2) echo "**Nothing was applied:** the specs, a policy or the command forbid it." ;;
    3) echo "**Nothing was applied:** the cluster cannot be reached, or does not allow it." ;;
    5)
        echo "**The plan is stale: nothing was touched.** Since it was made, the cluster or the specs"
        echo "changed, for example by another merge. Plan again, and have it approved."
        ;;
    *) echo "**Not all was applied:** \`connect apply\` ended with exit code $code." ;;
    esac
    echo
    python3 "$shared/quoted.py" "$report" 60000
    echo
    echo "_Applied in [this run]($CONNECT_RUN_URL)._"
} >"$RUNNER_TEMP/connect-apply.md"
cat "$RUNNER_TEMP/connect-apply.md" >>"$GITHUB_STEP_SUMMARY"
echo "exit-code=$code" >>"$GITHUB_OUTPUT"
exit "$code"
