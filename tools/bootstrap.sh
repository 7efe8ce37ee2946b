#!/bin/sh
# Check what must be on the machine, naming what is missing and the command that installs it; then make .venv with the
# pinned tools (tools/environment.py). Quick when all is there. usage: tools/bootstrap.sh tools|wheel
set -eu
cd "$(dirname "$0")/.."

missing=0
need() { # what is missing, then how to get it
    missing=1
    printf 'missing: %s\n' "$1" >&2
    shift
    for line in "$@"; do printf '    %s\n' "$line" >&2; done
}

[ -x "$HOME/.cargo/bin/cargo" ] && PATH="$PATH:$HOME/.cargo/bin"

python=""
for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11 python; do
    if command -v "$candidate" >/dev/null 2>&1 &&
        "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    need "Python 3.11 or newer" \
        "Debian, Ubuntu: sudo apt-get install python3 python3-venv" \
        "Fedora:         sudo dnf install python3" \
        "macOS:          brew install python" \
        "elsewhere, say which one: make PYTHON=/path/to/python3.11"
elif ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    need "the venv and ensurepip modules of $python" "Debian, Ubuntu: sudo apt-get install python3-venv"
fi

wanted=$(sed -n 's/^rust-version = "\([0-9.]*\)"/\1/p' Cargo.toml)
if ! command -v cargo >/dev/null 2>&1 || ! found=$(rustc --version 2>/dev/null); then
    need "a Rust toolchain, $wanted or newer" \
        "any system: curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh" \
        "or a package of the system, where it is new enough: sudo apt-get install cargo"
else
    found=$(printf '%s' "$found" | sed 's/^rustc \([0-9]*\)\.\([0-9]*\).*/\1 \2/')
    # shellcheck disable=SC2086
    set -- ${found} $(printf '%s' "$wanted" | tr . ' ') -- "$@"
    if [ "$1" -lt "$3" ] || { [ "$1" -eq "$3" ] && [ "$2" -lt "$4" ]; }; then
        need "Rust $wanted or newer (found $1.$2)" "rustup update stable"
    fi
    while [ "$1" != "--" ]; do shift; done
    shift
    for part in fmt clippy; do
        cargo "$part" --version >/dev/null 2>&1 || need "cargo $part" "rustup component add rustfmt clippy"
    done
fi

probe=$(mktemp -d)
trap 'rm -rf "$probe"' EXIT
echo 'int main(void) { return 0; }' >"$probe/a.c"
compiler=${CC:-cc}
if ! $compiler "$probe/a.c" -o "$probe/a" 2>/dev/null; then
    need "a C compiler that links ($compiler)" \
        "Debian, Ubuntu: sudo apt-get install build-essential" \
        "Fedora:         sudo dnf install gcc" \
        "macOS:          xcode-select --install"
fi
rm -rf "$probe"
trap - EXIT

[ "$missing" -eq 0 ] || exit 1
exec "$python" tools/environment.py "$@"
