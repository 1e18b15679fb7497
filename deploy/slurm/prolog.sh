#!/bin/sh
# Slurm's Prolog (slurm.conf: Prolog=/etc/slurm/prolog.d/*): tells the agent which GPUs a job was given.
# slurmd runs it as root on every node of the job before the job's first step, with these variables set;
# nothing of the job itself has run by then. SLURM_JOB_GPUS has the numbers of the device nodes, /dev/nvidiaN.
# The agent reads the directory: gpuledger agent run --holders DIR
set -eu
[ -n "${SLURM_JOB_GPUS:-}" ] || exit 0
directory=${GPULEDGER_HOLDERS:-/run/gpuledger/holders}
mkdir -p "$directory"
# a name may hold anything but quotes survive only doubled in YAML
quote() { printf "'%s'" "$(printf '%s' "$1" | tr -d '\n\r' | sed "s/'/''/g")"; }
{
    echo "consumers:"
    echo "  - kind: slurm_job"
    echo "    id: '$SLURM_JOB_ID'"
    echo "    name: $(quote "${SLURM_JOB_NAME:-}")"
    echo "    namespace: $(quote "${SLURM_JOB_ACCOUNT:-}")"
    echo "    labels: {user: $(quote "${SLURM_JOB_USER:-}"), partition: $(quote "${SLURM_JOB_PARTITION:-}")}"
    echo "    devices:"
    echo "$SLURM_JOB_GPUS" | tr ',' '\n' | while read -r gpu; do
        echo "      - {id: nvidia$gpu, resource: gres/gpu}"
    done
} > "$directory/.job_$SLURM_JOB_ID"
mv "$directory/.job_$SLURM_JOB_ID" "$directory/job_$SLURM_JOB_ID.yaml"
