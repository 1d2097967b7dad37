#!/bin/bash
# A large sample by independent jobs:  sbatch sample.sh RUN PATIENTS OUT [options of adapcla sample]
# Each writes its share beside OUT; assemble.sh with the same words makes the cohort. Jobs that failed may be run
# again alone (sbatch --array=7,9 sample.sh …): what is there is kept.
#SBATCH --job-name=adapcla-sample
#SBATCH --array=1-64
#SBATCH --cpus-per-task=1
#SBATCH --mem=2G
set -euo pipefail
run=$1 patients=$2 out=$3
shift 3

# How many shares there are: the last number of --array above, also where only some of them are run again.
jobs=${JOBS:-64}
export OMP_NUM_THREADS=1
adapcla sample "$run" --patients "$patients" --out "$out" --shard "$SLURM_ARRAY_TASK_ID/$jobs" "$@"
