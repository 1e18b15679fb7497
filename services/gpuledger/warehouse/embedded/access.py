"""What an HTTP client of the embedded engine may do, in ClickHouse's own access control.

The engine lives inside this process and would read and write this machine's files, start programs and
open connections for whoever can reach the port: file(), url(), s3(), remote(), executable(), INTO OUTFILE.
Three layers forbid it, tested one by one:

1. **grants** of the engine: no READ or WRITE on any source, only table engines that keep their data inside
   the data path, no dictionaries, users, functions, named collections, backups;
2. **constraints** of the engine: settings that name a file, a disk or a URL are constant;
3. **policy.py**: what chDB does on the client's side, before it asks for a grant.
"""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

MAX_QUERY_S = 600  # a month of 100 M rows takes 6 s unmerged; ten minutes is a mistake, not a report
MAX_QUERY_MEMORY_BYTES = 8 << 30  # one query must not take the machine down with the server
MAX_RESULT_BYTES = 1 << 30  # a result is held in memory whole before it is sent

PRIVILEGES = (
    "SHOW DATABASES, SHOW TABLES, SHOW COLUMNS, SELECT, INSERT, ALTER TABLE, ALTER VIEW, CREATE DATABASE, "
    "CREATE TABLE, CREATE VIEW, CREATE TEMPORARY TABLE, DROP DATABASE, DROP TABLE, DROP VIEW, UNDROP TABLE, "
    "TRUNCATE, OPTIMIZE, CHECK, KILL QUERY, SYSTEM FLUSH LOGS, SYSTEM VIEWS, SYSTEM MERGES, "
    "SYSTEM TTL MERGES, SYSTEM SYNC REPLICA"
)
ENGINES = (
    "MergeTree", "ReplacingMergeTree", "SummingMergeTree", "AggregatingMergeTree", "CollapsingMergeTree",
    "VersionedCollapsingMergeTree", "Memory", "Null", "Log", "TinyLog", "StripeLog", "Set", "Join", "Buffer",
    "Merge", "View", "MaterializedView", "GenerateRandom", "Atomic",
)  # fmt: skip

# Settings that name a file, a program, a disk or an address.
CONSTANT_SETTINGS = (
    "format_schema", "format_schema_source", "format_schema_message_name", "output_format_schema",
    "format_template_row", "format_template_resultset", "format_template_row_format",
    "format_template_resultset_format", "format_avro_schema_registry_url", "format_regexp",
    "merge_tree_disk", "merge_tree_storage_policy", "max_execution_time", "max_memory_usage",
    "allow_introspection_functions", "allow_ddl", "format_display_secrets_in_show_and_select",
)  # fmt: skip


def write_config(folder: Path) -> Path:
    """Write the engine's configuration into ``folder`` and return its path.

    Written at every start, so that an edit on disk never widens what a client may do.
    """
    folder.mkdir(parents=True, exist_ok=True)
    users = folder / "users.xml"
    constraints = "".join(f"<{name}><const/></{name}>" for name in CONSTANT_SETTINGS)
    engines = ", ".join(f"TABLE ENGINE ON {name}" for name in ENGINES)
    # `default` is the one database of the engine that also shows the host's files; tables of it are not
    # kept over a restart, so nothing may be created there.
    grants = "".join(
        f"<query>{text}</query>"
        for text in (
            f"GRANT {PRIVILEGES} ON *.*",
            f"GRANT {engines}",
            "REVOKE CREATE TABLE, CREATE VIEW, DROP DATABASE ON default.*",
        )
    )
    users.write_text(
        "<clickhouse><profiles><default>"
        f"<max_execution_time>{MAX_QUERY_S}</max_execution_time>"
        f"<max_memory_usage>{MAX_QUERY_MEMORY_BYTES}</max_memory_usage>"
        f"<max_result_bytes>{MAX_RESULT_BYTES}</max_result_bytes>"
        f"<constraints>{constraints}</constraints></default></profiles><quotas><default/></quotas>"
        "<users><default><password></password><networks><ip>::/0</ip></networks><profile>default</profile>"
        f"<quota>default</quota><grants>{grants}</grants></default></users></clickhouse>\n"
    )
    config = folder / "config.xml"
    config.write_text(
        f"<clickhouse><users_config>{escape(str(users))}</users_config><timezone>UTC</timezone>"
        "<display_name>gpuledger</display_name></clickhouse>\n"
    )
    return config
