#!/usr/bin/env bash
# Keeps what a finished experiment may show: its tables and a few figures, never a page with cases of single patients.
#
#   adapcla run experiments/NAME.toml --out runs && results/keep.sh runs/NAME
set -euo pipefail
run="$1"
name="$(basename "$run")"
place="$(cd "$(dirname "$0")" && pwd)/$name"
mkdir -p "$place"
rm -f "$place"/*.md "$place"/*.csv "$place"/*.png
for table in "$run"/tables/*.md; do
  case "$(basename "$table")" in
    *example* | *code_page*) ;; # single patients and single codes stay with the run
    *) cp "$table" "$place/"; cp "${table%.md}.csv" "$place/" ;;
  esac
done
for figure in scorecard frequency-rank ppmi downstream analysis-probe_dynamics analysis-schedules roc control-adapcla-shifted; do
  if [ -f "$run/figures/$figure.png" ]; then cp "$run/figures/$figure.png" "$place/"; fi
done
echo "$place"
