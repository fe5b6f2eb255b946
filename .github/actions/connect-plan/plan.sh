#!/usr/bin/env bash
# Plans in the current folder and tells the job what came of it. The plan, its page and the text of
# the comment are left in $RUNNER_TEMP/connect-plan.
set -uo pipefail
shared=$(dirname "${BASH_SOURCE[0]}")/..
# shellcheck source=.github/actions/steps.sh
. "$shared/steps.sh"

folder=$RUNNER_TEMP/connect-plan
rm -rf "$folder" && mkdir -p "$folder"
read -r -d "" -a more <<<"${CONNECT_ARGUMENTS:-}"
name=$(plan_name)

connect plan --detailed-exitcode --markdown \
    --out "$folder/plan.json" --html "$folder/plan.html" ${more[@]+"${more[@]}"} \
    >"$folder/plan.md" 2>"$folder/told.txt"
code=$?
quietly cat "$folder/told.txt"

if [[ ! -s $folder/plan.md ]]; then
    {
        echo "**There is no plan:** \`connect plan\` ended with exit code $code."
        echo
        python3 "$shared/quoted.py" "$folder/told.txt"
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
    echo "name=$name"
    echo "comment-file=$folder/plan.md"
    if [[ $code == 0 || $code == 4 ]]; then
        echo "plan-file=$folder/plan.json"
    fi
} >>"$GITHUB_OUTPUT"
cat "$folder/plan.md" >>"$GITHUB_STEP_SUMMARY"
