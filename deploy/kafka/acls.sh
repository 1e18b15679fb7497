#!/usr/bin/env bash
# The least that each service's user needs. Usage:
#   acls.sh BOOTSTRAP ADMIN.properties     (kafka-acls.sh of the Kafka distribution must be in PATH)
# Users: gpuledger-agent, -inventory, -processor, -sink, -budgets, -notify, -archive, -admin. Repeating it changes
# nothing.
set -euo pipefail
bootstrap=${1:?BOOTSTRAP, host:port} admin=${2:?a properties file that lets an administrator in}

allow() { # USER RESOURCE... -- OPERATION...
  local user=$1 resources=() operations=()
  shift
  while [ "$1" != -- ]; do resources+=("$1"); shift; done
  shift
  for operation in "$@"; do operations+=(--operation "$operation"); done
  kafka-acls.sh --bootstrap-server "$bootstrap" --command-config "$admin" \
    --add --allow-principal "User:$user" "${operations[@]}" "${resources[@]}"
}

# An agent says what it saw, and when its node began and ended.
allow gpuledger-agent --topic gpu.telemetry --topic gpu.nodes -- Write Describe DescribeConfigs

# The inventory says when nodes began and ended; what it said is its memory.
allow gpuledger-inventory --topic gpu.nodes -- Read Write Describe
allow gpuledger-inventory --group gpuledger-unjoined -- Read

# The processor reads what nodes and configuration say, and writes the ledger and its own progress.
allow gpuledger-processor --topic gpu.telemetry --topic gpu.nodes --topic gpu.prices --topic gpu.teams \
  --topic gpu.budgets --topic gpu.generations --topic gpu.progress -- Read Describe
allow gpuledger-processor --topic gpu.charges --topic gpu.progress --topic gpu.dead-letters -- Write Describe
allow gpuledger-processor --group gpuledger- --resource-pattern-type prefixed -- Read
allow gpuledger-processor --transactional-id gpuledger- --resource-pattern-type prefixed -- Write Describe

allow gpuledger-sink --topic gpu.charges --topic gpu.breaches --topic gpu.periods --topic gpu.generations -- \
  Read Describe
allow gpuledger-sink --topic gpu.dead-letters -- Write Describe
allow gpuledger-sink --group gpuledger- --resource-pattern-type prefixed -- Read

# Budgets are counted from the ledger, and each change of a breach is told.
allow gpuledger-budgets --topic gpu.charges --topic gpu.budgets --topic gpu.prices --topic gpu.budget-subtotals \
  --topic gpu.budget-state --topic gpu.breaches --topic gpu.breach-notes -- Read Describe
allow gpuledger-budgets --topic gpu.budget-subtotals --topic gpu.budget-state --topic gpu.breaches \
  --topic gpu.breach-notes --topic gpu.dead-letters -- Write Describe
allow gpuledger-budgets --group gpuledger- --resource-pattern-type prefixed -- Read
allow gpuledger-budgets --transactional-id gpuledger-budgets --resource-pattern-type prefixed -- Write Describe

allow gpuledger-notify --topic gpu.breaches -- Read Describe
allow gpuledger-notify --topic gpu.dead-letters -- Write Describe
allow gpuledger-notify --group gpuledger- --resource-pattern-type prefixed -- Read

# The archive copies every input, and writes nothing.
allow gpuledger-archive --topic gpu.telemetry --topic gpu.nodes --topic gpu.prices --topic gpu.teams \
  --topic gpu.budgets --topic gpu.periods --topic gpu.generations --topic gpu.dead-letters -- Read Describe
allow gpuledger-archive --group gpuledger-unjoined -- Read

# Whoever runs `gpuledger topics apply`, `gpuledger config apply` and `gpuledger period close`.
allow gpuledger-admin --topic gpu. --resource-pattern-type prefixed -- \
  Create Describe DescribeConfigs AlterConfigs
allow gpuledger-admin --topic gpu.prices --topic gpu.teams --topic gpu.budgets --topic gpu.periods \
  --topic gpu.generations -- Read Write
