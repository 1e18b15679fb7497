"""Which pages may be given back, and what is handed over to the agent's own process."""

from __future__ import annotations

import logging
import os
import pickle
import re
from pathlib import Path

import pytest

from gpuledger.agent.footprint import Keeper, Range, clean_ranges, give_back
from gpuledger.agent.handover import Orders, take_over
from gpuledger.agent.runtime import Sources
from gpuledger.agent.settings import AgentSettings
from gpuledger.bus import BusSettings
from gpuledger.contract.errors import ConfigError, KafkaUnavailable, Unsupported, exit_status, in_a_line
from gpuledger.contract.identity import NodeKey
from gpuledger.logs import EventLog, JsonLines


def mapping(head: str, anonymous_kib: int) -> list[str]:
    return [
        head,
        "Rss:                 100 kB",
        f"Anonymous:             {anonymous_kib} kB",
        "VmFlags: rd mr",
    ]


def test_only_clean_read_only_pages_of_files_are_given_back() -> None:
    smaps = [
        *mapping("1000-3000 r-xp 00000000 08:01 77    /usr/lib/libc.so.6", 0),
        *mapping("3000-4000 r--p 00002000 08:01 77    /usr/lib/libc.so.6", 4),  # relocated
        *mapping("4000-5000 rw-p 00003000 08:01 77    /usr/lib/libc.so.6", 0),
        *mapping("5000-6000 r--p 00000000 08:01 78    /usr/share/zone info", 0),
        *mapping("6000-7000 r--s 00000000 08:01 79    /dev/shm/ring", 0),
        *mapping("7000-8000 rw-p 00000000 00:00 0     [heap]", 8),
        *mapping("8000-9000 r--p 00000000 00:00 0", 0),
        *mapping("9000-a000 r-xp 00000000 00:00 0     [vdso]", 0),
    ]
    assert list(clean_ranges(smaps)) == [Range(0x1000, 0x2000), Range(0x5000, 0x1000)]


def test_a_process_goes_on_after_it_gave_back_its_pages() -> None:
    give_back()
    assert re.sub("b", "c", "ab") == "ac"
    assert sorted(pickle.loads(pickle.dumps([2, 1]))) == [1, 2]


def test_orders_arrive_as_they_were_given_and_hold_no_secret(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("s3cr3t\n")
    bus = BusSettings(
        kafka_bootstrap="kafka:9093",
        kafka_security_protocol="SASL_PLAINTEXT",
        kafka_sasl_mechanism="SCRAM-SHA-512",
        kafka_sasl_username="agent",
        kafka_sasl_password_file=secret,
    )
    orders = Orders(AgentSettings(NodeKey("c", "n"), tmp_path), Sources(), bus.plain(), 9464, "::1", True)
    fd = os.memfd_create("test")
    data = pickle.dumps(orders)
    assert b"s3cr3t" not in data
    assert b"pydantic" not in data
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    taken = take_over(fd)
    assert taken.settings == orders.settings
    assert taken.sources == orders.sources
    assert (taken.metrics_port, taken.metrics_address, taken.ends_node) == (9464, "::1", True)
    assert taken.bus.client_config() == bus.client_config()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ConfigError("x"), 2),
        (KafkaUnavailable("x"), 3),
        (Unsupported("x"), 1),
        (OSError(2, "no such file"), 2),  # Python makes it a FileNotFoundError
        (OSError(13, "not allowed"), 2),
        (OSError(28, "disk full"), 1),
    ],
)
def test_an_exit_code_says_whose_the_error_is(error: Exception, status: int) -> None:
    assert isinstance(error, (ConfigError, KafkaUnavailable, Unsupported, OSError))
    assert exit_status(error) == status


def test_an_error_of_a_file_names_it() -> None:
    assert in_a_line(FileNotFoundError(2, "No such file", "/x")) == "/x: No such file"
    assert in_a_line(ConfigError("is no number", "a.yaml:3")) == "a.yaml:3: is no number"


def test_a_log_line_is_json_with_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    log = EventLog("gpuledger.test")
    with caplog.at_level(logging.INFO, "gpuledger.test"):
        log.info("epoch_begins", boot_id="b", path=Path("/x"))
        try:
            raise ValueError("why")
        except ValueError:
            log.exception("it_failed")
    ours = [record for record in caplog.records if record.name == "gpuledger.test"]
    first, second = map(JsonLines().format, ours)
    assert re.fullmatch(
        r'\{"boot_id": "b", "path": "PosixPath\(\'/x\'\)", "event": "epoch_begins", "level": "info", '
        r'"timestamp": "\d{4}-\d\d-\d\dT[\d:.]+Z"\}',
        first,
    )
    assert '"level": "error"' in second
    assert "ValueError: why" in second


def test_the_keeper_ends_at_once_when_the_agent_does() -> None:
    with Keeper() as keeper:
        assert keeper._thread.is_alive()
    assert not keeper._thread.is_alive()
