"""The reason for a charge: inputs, arithmetic, revisions; computed again and held against the ledger."""
