#!/usr/bin/env bash
# Which artefact holds the plan? See find_plan.py.
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=.github/actions/steps.sh
. "$here/../steps.sh"

name=$(plan_name)
echo "name=$name" >>"$GITHUB_OUTPUT"
python3 "$here/find_plan.py" "$name" "$MERGED" ${REVIEWED:+"$REVIEWED"}
