#!/usr/bin/env bash
# The least that each service's user needs. Usage:
#   acls.sh BOOTSTRAP ADMIN.properties     (kafka-acls.sh of the Kafka distribution must be in PATH)
# Users: gpuledger-agent, -inventory, -processor, -sink, -budgets, -notify, -commitments, -archive, -replay, -operator,
# -admin. Repeating it changes nothing.
set -euo pipefail
bootstrap=${1:?BOOTSTRAP, host:port} admin=${2:?a properties file that lets an administrator in}

allow() { # USER[,USER...] RESOURCE... -- OPERATION...
  local user users=() resources=() operations=()
  for user in ${1//,/ }; do users+=(--allow-principal "User:$user"); done
  shift
  while [ "$1" != -- ]; do resources+=("$1"); shift; done
  shift
  for operation in "$@"; do operations+=(--operation "$operation"); done
  kafka-acls.sh --bootstrap-server "$bootstrap" --command-config "$admin" \
    --add "${users[@]}" "${operations[@]}" "${resources[@]}"
}

# Services share their work in groups; whoever reads by offsets names a group that nobody joins. What cannot be
# read is kept.
allow gpuledger-processor,gpuledger-sink,gpuledger-budgets,gpuledger-notify \
  --group gpuledger- --resource-pattern-type prefixed -- Read
allow gpuledger-inventory,gpuledger-archive,gpuledger-commitments,gpuledger-replay,gpuledger-operator,\
gpuledger-admin --group gpuledger-unjoined -- Read
allow gpuledger-sink,gpuledger-notify --topic gpu.dead-letters -- Write Describe

# An agent says what it saw, and when its node began and ended.
allow gpuledger-agent --topic gpu.telemetry --topic gpu.nodes -- Write Describe DescribeConfigs

# The inventory says when nodes began and ended; what it said is its memory.
allow gpuledger-inventory --topic gpu.nodes -- Read Write Describe

# The processor reads what nodes and configuration say, and writes the ledger and its own progress.
allow gpuledger-processor --topic gpu.telemetry --topic gpu.nodes --topic gpu.prices --topic gpu.teams \
  --topic gpu.generations --topic gpu.progress -- Read Describe
allow gpuledger-processor --topic gpu.charges --topic gpu.progress --topic gpu.dead-letters -- Write Describe
allow gpuledger-processor --transactional-id gpuledger- --resource-pattern-type prefixed -- Write Describe

allow gpuledger-sink --topic gpu.charges --topic gpu.breaches --topic gpu.periods --topic gpu.generations -- \
  Read Describe

# Budgets are counted from the ledger, and each change of a breach is told.
allow gpuledger-budgets --topic gpu.charges --topic gpu.budgets --topic gpu.prices --topic gpu.budget-subtotals \
  --topic gpu.budget-state --topic gpu.breaches --topic gpu.breach-notes -- Read Describe
allow gpuledger-budgets --topic gpu.budget-subtotals --topic gpu.budget-state --topic gpu.breaches \
  --topic gpu.breach-notes --topic gpu.dead-letters -- Write Describe
allow gpuledger-budgets --transactional-id gpuledger-budgets --resource-pattern-type prefixed -- Write Describe

allow gpuledger-notify --topic gpu.breaches -- Read Describe

# What was committed to and not used is in the ledger too; what it is compared with is ClickHouse's.
allow gpuledger-commitments --topic gpu.prices -- Read Describe
allow gpuledger-commitments --topic gpu.charges -- Write Describe

# The archive copies every input, and writes nothing.
allow gpuledger-archive --topic gpu.telemetry --topic gpu.nodes --topic gpu.prices --topic gpu.teams \
  --topic gpu.budgets --topic gpu.periods --topic gpu.generations --topic gpu.dead-letters -- Read Describe

# `gpuledger replay`, and its workers with `--distributed`: they share topics and a group of their own, which are
# made for one replay and removed behind it. Published, it writes the ledger.
allow gpuledger-replay --topic gpu.telemetry --topic gpu.nodes --topic gpu.prices --topic gpu.teams \
  --topic gpu.periods --topic gpu.generations --topic gpu.charges -- Read Describe
allow gpuledger-replay --topic gpu.charges --topic gpu.generations -- Write Describe
allow gpuledger-replay --topic gpu.replay. --resource-pattern-type prefixed -- Create Delete Describe Read Write
allow gpuledger-replay --group gpuledger-replay- --resource-pattern-type prefixed -- Read Describe Delete
allow gpuledger-replay --transactional-id gpuledger-replay- --resource-pattern-type prefixed -- Write Describe

# People who look after it: `gpuledger dead-letters`, `nodes`, `explain`, and notes on breaches. Mended copies go
# back to where they were refused; a document or a charge that cannot be read is not theirs to write.
allow gpuledger-operator --topic gpu.telemetry --topic gpu.nodes --topic gpu.progress --topic gpu.charges \
  --topic gpu.prices --topic gpu.teams --topic gpu.budgets --topic gpu.periods --topic gpu.generations \
  --topic gpu.breaches --topic gpu.breach-notes --topic gpu.dead-letters -- Read Describe
allow gpuledger-operator --topic gpu.telemetry --topic gpu.nodes --topic gpu.breach-notes \
  --topic gpu.dead-letters -- Write Describe

# Whoever runs `gpuledger topics apply`, `gpuledger config apply` and `gpuledger period close`.
allow gpuledger-admin --topic gpu. --resource-pattern-type prefixed -- \
  Create Describe DescribeConfigs AlterConfigs
allow gpuledger-admin --topic gpu.prices --topic gpu.teams --topic gpu.budgets --topic gpu.periods \
  --topic gpu.generations -- Read Write
