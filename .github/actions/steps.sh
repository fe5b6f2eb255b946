# What the actions' scripts share; sourced.

# The name of a project's plans in one environment: ARTIFACT, the folder and CONNECT_ENV.
plan_name() {
    local folder=${FOLDER:-.} name=$ARTIFACT
    [[ $folder == . ]] || name+=-$folder
    [[ -z ${CONNECT_ENV:-} ]] || name+=-$CONNECT_ENV
    printf '%s' "${name//[^A-Za-z0-9._-]/-}"
}

# Runs a command whose output may quote what others wrote, which is no command to the runner.
quietly() {
    local code token
    token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
    echo "::stop-commands::$token"
    "$@"
    code=$?
    # Whatever was written last may lack its line end
    printf '\n::%s::\n' "$token"
    return "$code"
}
