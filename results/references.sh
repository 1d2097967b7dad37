#!/bin/sh
# Make references.md and references.csv: ./results/references.sh DATA WORK
# DATA is the folder of open data sets (each with visits.csv.gz), WORK takes the cohorts.
set -eu
data=$1
work=$2
here=$(dirname "$0")
for name in diabetes130 synpuf_inpatient chile_grd_inca2023; do
    test -d "$work/$name" || adapcla import table "$data/$name/visits.csv.gz" --out "$work/$name"
done
test -d "$work/planted" || adapcla simulate --patients 12000 --codes 3000 --seed 1 --out "$work/planted"
python "$here/../benchmarks/references.py" \
    diabetes130="$work/diabetes130" synpuf_inpatient="$work/synpuf_inpatient" \
    chile_grd_inca2023="$work/chile_grd_inca2023" planted="$work/planted" \
    --suites tail,fidelity,privacy --out "$here" --command "./results/references.sh DATA WORK"
