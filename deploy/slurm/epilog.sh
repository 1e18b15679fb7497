#!/bin/sh
# Slurm's Epilog (slurm.conf: Epilog=/etc/slurm/epilog.d/*): the job holds its GPUs no longer.
set -eu
rm -f "${GPULEDGER_HOLDERS:-/run/gpuledger/holders}/job_$SLURM_JOB_ID.yaml"
