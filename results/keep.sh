#!/usr/bin/env bash
# Keeps what findings cite of a finished experiment: its tables on one page, and the figures that are named. Tables of
# single codes and cases of single patients stay with the run.
#
#   adapcla run experiments/NAME.toml --out runs && results/keep.sh runs/NAME [FIGURE ...]
set -euo pipefail
run="$1"
name="$(basename "$run")"
folder="$(cd "$(dirname "$0")" && pwd)/$name"
mkdir -p "$folder"
{
  echo "# Tables of $name"
  echo
  echo "Made by \`adapcla run experiments/$name.toml --out runs\` and \`results/keep.sh runs/$name\`; columns are explained in"
  echo "[metrics](../../docs/metrics.md), rows in [methods](../../docs/methods.md), minutes stand in [results](../README.md)."
  for table in verdicts power grid tail-glance tail-knowledge tail-plausibility tail-plausibility-third tail-plausibility-same-size tail-plausibility-heldout fidelity utility privacy gate control \
    analysis-next_visit analysis-probe_separation cost data-card environment; do
    if [ -f "$run/tables/$table.md" ]; then
      printf '\n## %s\n\n' "$table"
      cat "$run/tables/$table.md"
    fi
  done
} >"$folder/README.md"
for figure in "${@:2}"; do cp "$run/figures/$figure.png" "$folder/"; done
echo "$folder"
