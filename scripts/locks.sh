#!/usr/bin/env bash
# Writes the lock files from pyproject.toml: versions and hashes, one resolution for Linux and macOS, Python 3.11 and up.
# Pins stay as they are where pyproject.toml still allows them; `scripts/locks.sh --upgrade` takes the newest of all.
set -euo pipefail
cd "$(dirname "$0")/.."

uv=.venv/bin/uv
index=$(.venv/bin/python -m pip config get global.index-url 2>/dev/null || true)
index=${PIP_INDEX_URL:-$index}
if [ -n "$index" ]; then
    export UV_DEFAULT_INDEX="$index" # uv does not read pip's settings
fi

# extra NAME: the requirements of an extra, one a line.
extra() {
    .venv/bin/python - "$1" <<'PYTHON'
import sys, tomllib
with open("pyproject.toml", "rb") as file:
    print("\n".join(tomllib.load(file)["project"]["optional-dependencies"][sys.argv[1]]))
PYTHON
}

# compile LOCK SOURCE...: resolve SOURCE into locks/LOCK.lock, without addresses.
compile() {
    local lock=locks/$1.lock
    shift
    echo "lock: $lock"
    "$uv" pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest --generate-hashes \
        --no-header --no-annotate --output-file "$lock" ${upgrade[@]+"${upgrade[@]}"} "$@"
}

upgrade=("$@") # expanded by ${...+...} above: to bash 3.2 of macOS, an empty array is not set
compile base --group build --extra report pyproject.toml
extra torch | compile torch --constraint locks/base.lock -
# HolisticTraceAnalysis asks for a whole notebook server, of which the tests use nothing.
{ extra dev && extra docs; } | compile dev --constraint locks/base.lock --constraint locks/torch.lock \
    --override <(echo 'jupyterlab; python_version < "3"') -
