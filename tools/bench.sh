#!/bin/sh
# Runs benches/run.py in an environment of its own, with the built wheel and the pinned peers. usage: tools/bench.sh [args]
set -eu
cd "$(dirname "$0")/.."
env=.venv-bench
if [ ! -x "$env/bin/python" ]; then
    .venv/bin/python -m venv "$env"
    "$env/bin/pip" install -q numpy setuptools wheel pybind11
    # hnswlib has no wheel: it is compiled for this processor, as its users do
    "$env/bin/pip" install -q --no-build-isolation -r benches/requirements.txt ||
        echo "some peers could not be installed; they are left out" >&2
fi
"$env/bin/pip" install -q --force-reinstall --no-deps dist/kektordb-*.whl
"$env/bin/pip" install -q platformdirs
exec "$env/bin/python" -P benches/run.py "$@"
