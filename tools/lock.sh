#!/bin/sh
# Renew tools/requirements.lock from pyproject.toml: every tool and dependency at one version, with hashes, for all
# platforms and Pythons from 3.11. Needs uv (python -m pip install uv). Run it by hand; review the difference.
set -eu
cd "$(dirname "$0")/.."
exec uv pip compile pyproject.toml --group dev --universal --python-version 3.11 --generate-hashes \
    --no-emit-index-url --quiet --custom-compile-command "tools/lock.sh" --output-file tools/requirements.lock "$@"
