#!/bin/bash
# Training on two machines:  sbatch train.sh COHORT RUN [options of adapcla train]
# Every machine reads the cohort; only the first writes the run. The job may be requeued: it goes on by itself.
#SBATCH --job-name=adapcla-train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --requeue
set -euo pipefail
cohort=$1 run=$2
shift 2

# Processes of each machine, and the processors of each process.
processes=${PROCESSES:-2}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((${SLURM_CPUS_PER_TASK:-16} / processes))}
# Where machines have several networks, name the one that connects them: export GLOO_SOCKET_IFNAME=ib0
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)

# Read by the shell of each task, which knows its own number; $0 and $1 are the first machine and the processes.
# shellcheck disable=SC2016
srun bash -c 'first=$0 processes=$1; shift
    exec torchrun --nnodes "$SLURM_NNODES" --node_rank "$SLURM_PROCID" --nproc_per_node "$processes" \
        --master_addr "$first" --master_port "${MASTER_PORT:-29500}" -m adapcla train "$@" --resume' \
    "$first" "$processes" "$cohort" --out "$run" "$@"
