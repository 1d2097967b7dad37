#!/bin/bash
# Training, a sample of a million patients by 64 jobs, and its assembly, each when the one before has ended well:
#     bash submit.sh COHORT RUN OUT
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cohort=$1 run=$2 out=$3
patients=${PATIENTS:-1000000}
training=$(sbatch --parsable "$here/train.sh" "$cohort" "$run")
drawing=$(sbatch --parsable --dependency="afterok:$training" "$here/sample.sh" "$run" "$patients" "$out")
sbatch --dependency="afterok:$drawing" "$here/assemble.sh" "$run" "$patients" "$out"
