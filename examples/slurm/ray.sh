#!/bin/bash
# A Ray cluster on the machines of a Slurm job, and one command on it:
#     sbatch ray.sh adapcla sample RUN --patients 10000000 --out OUT --cluster auto --resume
# All machines must see the folders that the command names. A machine that is lost costs its tasks, not the run; a job
# that is requeued goes on where it was.
#SBATCH --job-name=adapcla
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --requeue
set -euo pipefail
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export RAY_ADDRESS="$first:${RAY_PORT:-6379}" RAY_USAGE_STATS_ENABLED=0
cores=${SLURM_CPUS_PER_TASK:-16}
others=$((SLURM_NNODES - 1))

srun --overlap --nodes=1 --ntasks=1 --nodelist="$first" \
    ray start --head --node-ip-address="$first" --port="${RAY_ADDRESS##*:}" --num-cpus="$cores" --block &
until ray status >/dev/null 2>&1; do sleep 1; done
if [ "$others" -gt 0 ]; then
    srun --overlap --nodes="$others" --ntasks="$others" --exclude="$first" \
        ray start --address="$RAY_ADDRESS" --num-cpus="$cores" --block &
fi
"$@"
