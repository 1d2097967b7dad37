#!/bin/bash
# The cohort from what the jobs of sample.sh wrote:  sbatch assemble.sh RUN PATIENTS OUT [the same options]
#SBATCH --job-name=adapcla-assemble
#SBATCH --cpus-per-task=1
#SBATCH --mem=2G
set -euo pipefail
run=$1 patients=$2 out=$3
shift 3
export OMP_NUM_THREADS=1
adapcla sample "$run" --patients "$patients" --out "$out" --shard all "$@"
