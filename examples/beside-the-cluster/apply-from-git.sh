#!/bin/sh
# Applies what is new on a branch. Runs where the cluster can be reached, every minute from cron or a
# timer, so that CI holds no login: its part is `connect validate`, and what is merged.
#
#   apply-from-git.sh CLONE [FOLDER]     FOLDER of connect.yaml in the clone
#
# A commit whose apply failed is tried again the next time. Nothing is applied without a new commit,
# so manual changes stay until then: `connect drift` reports them.
set -eu
clone=$1
folder=${2:-.}
applied=$clone/.git/connect-applied

git -C "$clone" pull --quiet --ff-only
head=$(git -C "$clone" rev-parse HEAD)
if [ "$head" = "$(cat "$applied" 2>/dev/null || true)" ]; then
    exit 0
fi
echo "applying $head"
connect -C "$clone/$folder" apply --yes
echo "$head" >"$applied"
