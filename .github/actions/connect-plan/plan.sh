#!/usr/bin/env bash
# Plans in the current folder and tells the job what came of it. The plan, its page and the text of
# the comment are left in $RUNNER_TEMP/connect-plan.
set -uo pipefail

folder=$RUNNER_TEMP/connect-plan
rm -rf "$folder" && mkdir -p "$folder"
read -r -a more <<<"${CONNECT_ARGUMENTS:-}"

connect plan --detailed-exitcode --markdown \
    --out "$folder/plan.json" --html "$folder/plan.html" ${more[@]+"${more[@]}"} \
    >"$folder/plan.md" 2>"$folder/told.txt"
code=$?
cat "$folder/told.txt" >&2

if [[ ! -s $folder/plan.md ]]; then
    {
        echo "**There is no plan:** \`connect plan\` ended with exit code $code."
        echo
        # four spaces quote whatever it holds
        sed 's/^/    /' "$folder/told.txt" | head -c 20000
    } >"$folder/plan.md"
fi
{
    echo
    echo "_Planned for ${CONNECT_COMMIT:0:12} in [this run]($CONNECT_RUN_URL)._"
} >>"$folder/plan.md"

# exit codes: 0 no changes, 4 changes; all others mean that there is no plan to apply
{
    echo "exit-code=$code"
    echo "changes=$([[ $code == 4 ]] && echo true || echo false)"
    echo "comment-file=$folder/plan.md"
    if [[ $code == 0 || $code == 4 ]]; then
        echo "plan-file=$folder/plan.json"
    fi
} >>"$GITHUB_OUTPUT"
cat "$folder/plan.md" >>"$GITHUB_STEP_SUMMARY"
