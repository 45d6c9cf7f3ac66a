#!/usr/bin/env bash
# Sees to what pip cannot install: TeX for the PDF, poppler for the tests that look into it, the engines and classes of
# the documents that tests put the sections into, the compiler of the kernels, Debian's part of Python.
#
#   scripts/system_packages.sh tex poppler        find each, else install it, else stop and say what to type
#   scripts/system_packages.sh hosts              install engines and classes if that can be, else say which tests skip
#   scripts/system_packages.sh compiler           the same for what builds the kernels in C++
#   scripts/system_packages.sh venv PACKAGE       install what Debian's Python lacks to make virtual environments
#   scripts/system_packages.sh list tex poppler   print the Debian packages that hold each
#
# On Debian and Ubuntu root installs with apt-get; nobody else's system is touched. GPU_REPORT_NO_INSTALL=1 keeps root
# from installing too.
set -euo pipefail
cd "$(dirname "$0")/.."

templates=src/gpu_report/writing/templates
debian_tex="latexmk texlive-latex-recommended texlive-fonts-recommended texlive-science lmodern"
debian_poppler="poppler-utils"
debian_compiler="g++ ninja-build"
debian_hosts="texlive-latex-extra texlive-publishers texlive-bibtex-extra texlive-lang-german texlive-luatex texlive-xetex"

found() {
    command -v "$1" >/dev/null 2>&1
}

# The engine that makes the PDF, or nothing.
tex_engine() {
    if found latexmk && found pdflatex; then
        echo "latexmk with pdflatex"
    elif found latexmk && found lualatex; then
        echo "latexmk with lualatex"
    elif found tectonic; then
        echo "tectonic"
    fi
}

# The LaTeX packages our files load and this TeX lacks, one a line. tectonic fetches its own.
missing_tex_files() {
    local name
    case "$(tex_engine)" in tectonic | "") return ;; esac
    for name in $(loaded_tex_packages); do
        [ -e "$templates/$name.sty" ] || kpsewhich "$name.sty" >/dev/null || echo "$name.sty"
    done
}

# Those that are loaded, and not in a comment.
loaded_tex_packages() {
    { grep -rhE --include='*.sty' --include='*.j2' '\\(RequirePackage|usepackage)' $templates 2>/dev/null || true; } |
        { grep -vE '^[[:space:]]*%' || true; } | grep -oE '\\(RequirePackage|usepackage)(\[[^]]*\])?\{[^}]*\}' |
        sed -E 's/^[^{]*\{([^}]*)\}.*/\1/' | tr -d ' ' | tr ',' '\n' | sort -u
}

has_tex() {
    [ -n "$(tex_engine)" ] && [ -z "$(missing_tex_files)" ]
}

has_poppler() {
    found pdftotext && found pdftoppm && found pdfinfo
}

# The engines and files that documents of the tests are made with and this TeX lacks, one a line.
missing_for_hosts() {
    local name
    for name in pdflatex lualatex xelatex; do
        found "$name" || echo "$name"
    done
    found kpsewhich || return 0
    for name in IEEEtran.cls acmart.cls elsarticle.cls revtex4-2.cls llncs.cls cleveref.sty import.sty biblatex.sty ngerman.ldf; do
        kpsewhich "$name" >/dev/null || echo "$name"
    done
}

# apt_install NAME SECONDS PACKAGE...: as root on Debian or Ubuntu; false elsewhere.
apt_install() {
    local name=$1 seconds=$2 log
    shift 2
    if [ -n "${GPU_REPORT_NO_INSTALL:-}" ] || [ "$(id -u)" -ne 0 ] || ! found apt-get; then
        return 1
    fi
    echo "$name: installing $* (about $seconds s)"
    log=$(mktemp)
    if ! { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "$@"; } \
        >"$log" 2>&1 </dev/null; then
        tail -n 5 "$log" >&2
        echo "$name: apt-get failed, see above and $log" >&2
        return 1
    fi
    rm -f "$log"
}

need_tex() {
    if ! has_tex; then
        # shellcheck disable=SC2086
        apt_install TeX 60 $debian_tex || true
    fi
    if [ -z "$(tex_engine)" ]; then
        cat >&2 <<MESSAGE
TeX is missing: neither latexmk with pdflatex or lualatex nor tectonic is on PATH. Install one, then run the same again:
  Debian, Ubuntu  sudo apt-get install $debian_tex
  Fedora          sudo dnf install latexmk texlive-collection-latexrecommended texlive-collection-fontsrecommended texlive-siunitx
  macOS           brew install tectonic
  conda           conda install --channel conda-forge tectonic
MESSAGE
        exit 1
    fi
    if ! has_tex; then
        # shellcheck disable=SC2046
        cat >&2 <<MESSAGE
TeX lacks $(printf '%s ' $(missing_tex_files))which the report loads. Install what holds it, then run the same again:
  Debian, Ubuntu  sudo apt-get install $debian_tex
  other TeX Live  sudo tlmgr install $(printf '%s ' $(missing_tex_files | sed 's/\.sty$//'))
  or tectonic, which fetches what it needs, with neither latexmk nor pdflatex before it on PATH
MESSAGE
        exit 1
    fi
    echo "TeX: $(tex_engine)"
}

need_poppler() {
    has_poppler || apt_install poppler 10 $debian_poppler || true
    if ! has_poppler; then
        cat >&2 <<MESSAGE
poppler is missing: the tests look into the PDF with pdfinfo, pdftotext and pdftoppm. Install it, then run the same again:
  Debian, Ubuntu  sudo apt-get install $debian_poppler
  Fedora          sudo dnf install poppler-utils
  macOS           brew install poppler
  conda           conda install --channel conda-forge poppler
MESSAGE
        exit 1
    fi
}

need_hosts() {
    if [ -n "$(missing_for_hosts)" ]; then
        # shellcheck disable=SC2086
        apt_install "TeX of other documents" 120 $debian_hosts || true
    fi
    if [ -n "$(missing_for_hosts)" ]; then
        # shellcheck disable=SC2046
        cat <<MESSAGE
TeX lacks $(printf '%s ' $(missing_for_hosts))so that tests of documents which need it skip. To run them too:
  Debian, Ubuntu  sudo apt-get install $debian_hosts
MESSAGE
    fi
}

need_compiler() {
    if ! found c++ || ! found ninja; then
        # shellcheck disable=SC2086
        apt_install compiler 30 $debian_compiler || true
    fi
    if ! found c++ || ! found ninja; then
        cat <<MESSAGE
A C++ compiler or ninja is missing, so that tests of the kernels in C++ skip. To run them too:
  Debian, Ubuntu  sudo apt-get install $debian_compiler
MESSAGE
    fi
    found nvcc || echo "compiler: no nvcc, so that the CUDA kernels are not compiled here"
}

need_venv() {
    if ! apt_install Python 10 "$1"; then
        echo "Python cannot make virtual environments here; run: sudo apt-get install $1" >&2
        exit 1
    fi
}

case "${1:-}" in
list)
    shift
    for name in "$@"; do
        variable=debian_$name
        echo "${!variable}"
    done
    ;;
venv) need_venv "$2" ;;
*)
    for name in "$@"; do
        "need_$name"
    done
    ;;
esac
