#!/usr/bin/env bash
# Builds the source archive and, from it, the wheel, and tries the wheel in a clean environment of each Python:
#     scripts/wheel.sh python3.11 python3.12 python3.13
# TORCH=no leaves torch and what needs it out, and tries the rest: where pip has no torch for one of the Pythons.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/wheel
rm -rf dist "$build"
mkdir -p "$build"

"$1" -m venv "$build/builder"
"$build/builder/bin/pip" install --quiet --disable-pip-version-check build
# The wheel is built from the source archive, so that the archive is known to be whole.
"$build/builder/bin/python" -m build --outdir dist . >"$build/build.log" 2>&1 || { cat "$build/build.log" >&2; exit 1; }
wheel=$(ls dist/*.whl)
ls -l dist

for python in "$@"; do
  if ! command -v "$python" >/dev/null; then
    echo "$python is not there; name another: make wheel PYTHONS='…'" >&2
    exit 1
  fi
  env="$build/env"
  rm -rf "$env"
  "$python" -m venv "$env"
  pip=("$env/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt)
  if [ "${TORCH:-yes}" = no ]; then
    "${pip[@]}" --no-deps "$wheel"
    "$env/bin/python" - <<'END' >"$build/needed.txt"
from importlib.metadata import requires
print("\n".join(r for r in requires("adapcla") if "extra ==" not in r and not r.startswith(("torch", "accelerate"))))
END
    "${pip[@]}" -r "$build/needed.txt"
    "$env/bin/python" scripts/smoke.py --no-torch
  else
    "${pip[@]}" "$wheel"
    "$env/bin/python" scripts/smoke.py
  fi
done
rm -rf "$build"
