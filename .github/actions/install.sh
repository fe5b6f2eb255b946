#!/usr/bin/env bash
# Installs the `connect` of this very checkout into FOLDER, with locked dependencies whose hashes are
# checked: jobs with credentials run nothing that was published since. $INSTALL names something else
# for pip to install there.
set -euo pipefail
folder=$1
checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

# Isolated: Python would import what lies in the current folder, which is a pull request's
python3 -I -m venv "$folder"
pip() { "$folder/bin/python" -I -m pip --quiet --disable-pip-version-check install "$@"; }

if [[ -n ${INSTALL:-} ]]; then
    pip "$INSTALL"
else
    pip --require-hashes -r "$checkout/requirements/build.lock"
    pip --require-hashes --only-binary :all: -r "$checkout/requirements/cli.lock"
    pip --no-deps --no-build-isolation "$checkout"
fi
