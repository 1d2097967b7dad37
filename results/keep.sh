#!/usr/bin/env bash
# Keeps what findings cite of a finished experiment: its tables on one page, and its figures with their captions. Tables
# of single codes and cases of single patients stay with the run.
#
#   adapcla run experiments/NAME.toml --out runs && results/keep.sh runs/NAME [FIGURE ...]
#   COMMAND='adapcla run experiments/tail.toml --set name=NAME …' results/keep.sh runs/NAME      where options were given
set -euo pipefail
run="$1"
name="$(basename "$run")"
folder="$(cd "$(dirname "$0")" && pwd)/$name"
# The figures of every experiment that has them, then those that were named.
figures=(tail-knowledge frequency-frequency rank-rank given-label reliability reliability-balanced)
for figure in "${@:2}"; do
  if [ ! -f "$run/figures/$figure.png" ]; then
    echo "no $figure.png in $run/figures; expected one of: $(cd "$run/figures" && ls -- *.png | tr '\n' ' ')" >&2
    exit 2
  fi
  case " ${figures[*]} " in *" $figure "*) ;; *) figures+=("$figure") ;; esac
done
mkdir -p "$folder"
{
  echo "# Tables of $name"
  echo
  echo "Made by \`${COMMAND:-adapcla run experiments/$name.toml} --out runs\` and \`results/keep.sh runs/$name\`; columns are explained in"
  echo "[metrics](../../docs/metrics.md), rows in [methods](../../docs/methods.md), minutes stand in [results](../README.md)."
  for table in tail-glance tail-knowledge verdicts power grid tail-swap tail-information tail-plausibility tail-plausibility-third \
    tail-plausibility-same-size tail-plausibility-heldout tail-pairs-heldout fidelity utility reliability privacy gate control \
    analysis-next_visit analysis-probe_separation cost data-card environment; do
    if [ -f "$run/tables/$table.md" ]; then
      printf '\n## %s\n\n' "$table"
      cat "$run/tables/$table.md"
    fi
  done
  printf '\n## figures\n'
  for figure in "${figures[@]}"; do
    if [ -f "$run/figures/$figure.png" ]; then
      cp "$run/figures/$figure.png" "$folder/"
      printf '\n![%s](%s.png)\n\n' "$figure" "$figure"
      if [ -f "$run/figures/$figure.md" ]; then cat "$run/figures/$figure.md"; fi
    fi
  done
} >"$folder/README.md"
echo "$folder"
