#!/usr/bin/env bash
# Makes the virtual environment .venv, one step a call; the Makefile remembers which steps are done.
#
#   scripts/environment.sh create [PYTHON]   make .venv with this interpreter (default: the first of 3.11 or newer on PATH)
#   scripts/environment.sh install LOCK      install what locks/LOCK.lock pins
#   scripts/environment.sh torch             install the pinned torch, or use the one that PYTHON already has
#   scripts/environment.sh package           install gpu-report itself, editable
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=${PATH//"$PWD/.venv/bin:"/} # .venv is not made from itself

log=.venv/pip.log
oldest_torch=2.11 # as in pyproject.toml
torch_needs_gb=9   # 6 unpacked, 3 while it is fetched

fail() {
    echo "$*" >&2
    exit 1
}

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

# The interpreter asked for, or the first on PATH that is new enough.
choose_python() {
    local name
    for name in ${1:-python3 python3.12 python3.11 python3.13 python3.14}; do
        if is_new_enough "$name"; then
            command -v "$name"
            return
        fi
    done
    if [ -n "${1:-}" ]; then
        fail "PYTHON=$1 is no Python 3.11 or newer; give the path of one"
    fi
    fail "no Python 3.11 or newer on PATH; install one, or name it: make report PYTHON=/path/to/python3.12"
}

# Debian's Python comes without what makes virtual environments.
need_venv() {
    local python=$1 package
    if "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        return
    fi
    package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    scripts/system_packages.sh venv "$package"
    "$python" -c 'import ensurepip, venv' || fail "$python still cannot make virtual environments"
}

create() {
    local python
    python=$(choose_python "${1:-}")
    need_venv "$python"
    echo "environment: making .venv with $("$python" --version) of $python (about 5 s)"
    "$python" -m venv --clear .venv
    echo "$python" >.venv/made-with
}

# need_disk GB: stop where less is free beside the project.
need_disk() {
    local free_gb
    free_gb=$(df -Pk . | awk 'NR == 2 { printf "%d", $4 / 1000000 }')
    if [ "$free_gb" -lt "$1" ]; then
        fail "environment: $free_gb GB are free here, torch needs $1; free some, or use a Python that has torch: make report PYTHON=..."
    fi
}

# Lets pip say what it fetches when that takes a while, and keeps the rest in the log.
run_pip() {
    mkdir -p .venv/tmp # the system's may be small and in memory
    if ! TMPDIR=$PWD/.venv/tmp .venv/bin/python -m pip install --progress-bar off --disable-pip-version-check --no-input "$@" 2>&1 |
        tee "$log" | awk '
            /^ *(Downloading|Using cached) .*\([0-9.]+ [MG]B\)/ {
                size = substr($(NF - 1), 2) * ($NF == "GB)" ? 1000 : 1)
                if (size >= 100) { sub(/^ */, "  "); sub(/-[^ ]* /, " "); print; fflush() }
            }
            /^Installing collected packages/ { print "  unpacking"; fflush() }'; then
        grep -E '^ *(ERROR|error)' "$log" >&2 || tail -n 10 "$log" >&2
        fail "environment: pip failed; all it said is in $log. When it is the network, run the same again."
    fi
}

install() {
    local seconds beside=()
    case $1 in torch) seconds="60 to 300 s, by network" ;; *) seconds="20 to 60 s" ;; esac
    echo "environment: installing $(grep -c '==' "locks/$1.lock") packages of locks/$1.lock ($seconds)"
    # What lies beside the user's own torch would count as installed, and would bring no command into .venv/bin.
    if compgen -G '.venv/lib/*/site-packages/own-torch.pth' >/dev/null; then
        beside=(--ignore-installed)
    fi
    run_pip --no-deps ${beside[@]+"${beside[@]}"} --require-hashes --requirement "locks/$1.lock"
}

# The version of the torch and then the folders of the torch and torchvision that an interpreter imports, one a line;
# false without them.
own_torch() {
    "$1" - 2>/dev/null <<'PYTHON'
import pathlib, torch, torchvision
print(torch.__version__, *sorted({str(pathlib.Path(m.__file__).parents[1]) for m in (torch, torchvision)}), sep="\n")
PYTHON
}

# Why an interpreter that has torch cannot use it, in one line; nothing where it has none.
why_own_torch_fails() {
    "$1" - 2>/dev/null <<'PYTHON'
import importlib, importlib.util, sys
if importlib.util.find_spec("torch") is None:
    sys.exit()
for name in ("torch", "torchvision"):
    try:
        importlib.import_module(name)
    except BaseException as error:  # a broken build raises anything
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        sys.exit(print(f"{name} does not import: {said}"))
PYTHON
}

is_at_least() {
    [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]
}

# own-torch.pth comes last on sys.path, so what the lock files pin is found first.
use_own_torch() {
    local site_packages
    site_packages=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    cat >"$site_packages/own-torch.pth"
    own_torch .venv/bin/python >/dev/null ||
        fail "environment: that torch does not import beside pinned packages; see .venv/bin/python -c 'import torch, torchvision'"
}

torch() {
    local python found version why
    python=$(cat .venv/made-with)
    if found=$(own_torch "$python"); then
        version=$(head -n 1 <<<"$found")
        if is_at_least "$version" "$oldest_torch"; then
            echo "environment: using torch $version of $python; none is installed"
            tail -n +2 <<<"$found" | use_own_torch
            return
        fi
        echo "environment: torch $version of $python is older than $oldest_torch and stays unused; the pinned one is installed"
    else
        why=$(why_own_torch_fails "$python") || why="torch ends Python when it is imported"
        if [ -n "$why" ]; then
            echo "environment: $python has a torch that cannot be used ($why); the pinned one is installed"
        fi
    fi
    own_torch .venv/bin/python >/dev/null || need_disk "$torch_needs_gb"
    install torch
}

package() {
    echo "environment: installing gpu-report (about 3 s)"
    run_pip --no-deps --no-build-isolation --quiet --editable .
}

"$@"
