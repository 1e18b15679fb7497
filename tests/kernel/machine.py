"""Boots Debian's cloud kernel in QEMU over this machine's own root, read-only, to run a command there.

Needs qemu-system-x86, busybox-static, cpio, and linux-headers-cloud-amd64, whose kernel image is fetched (not
installed) from where the headers came from. No KVM is needed: user space is there after some 3 s.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
PLACE = CHECKOUT / "build" / "kernel-test"
SOURCES = Path(__file__).parent / "src"
BUSYBOX = Path("/bin/busybox")
VIRTIOFSD = Path("/usr/lib/qemu/virtiofsd")
STARTED_S = 240.0
LIMIT_S = 1500  # a boot takes 30 to 70 s, and many times that where others want the cores
FAMILIES = {"535": "-DFRONTEND", "545": "", "tracepoint": "-DTRACEPOINT"}

GUEST_MODULES = (
    "drivers/virtio/virtio_ring",
    "drivers/virtio/virtio",
    "drivers/virtio/virtio_pci_legacy_dev",
    "drivers/virtio/virtio_pci_modern_dev",
    "drivers/virtio/virtio_pci",
    "fs/fuse/fuse",
    "fs/fuse/virtiofs",
    "fs/overlayfs/overlay",
)
"""In the order in which they need each other."""

INIT = """#!/bin/busybox sh
b=/bin/busybox
$b mount -t proc proc /proc; $b mount -t sysfs sys /sys; $b mount -t devtmpfs dev /dev
for module in /modules/*.ko; do $b insmod $module; done
$b mount -t virtiofs -o ro host /host
$b mount -t tmpfs tmpfs /changes; $b mkdir /changes/upper /changes/work
$b mount -t overlay -o lowerdir=/host,upperdir=/changes/upper,workdir=/changes/work overlay /root
for place in proc sys dev; do $b mount --move /$place /root/$place; done
$b mount -t tmpfs tmpfs /root/run
$b mount -t cgroup2 cgroup2 /root/sys/fs/cgroup
$b mount -t tracefs tracefs /root/sys/kernel/tracing
$b mount -t bpf bpf /root/sys/fs/bpf
exec $b switch_root /root /bin/sh -c '%s; echo "@@ status $?"; sync; echo o > /proc/sysrq-trigger; sleep 99'
"""


def headers() -> Path:
    """The newest Debian cloud headers."""
    found = sorted(
        Path("/usr/src").glob("linux-headers-*-cloud-amd64"), key=lambda path: path.stat().st_mtime
    )
    assert found, "install linux-headers-cloud-amd64"
    return found[-1]


def kernel_image() -> Path:
    """The unpacked kernel package of the headers' version."""
    version = headers().name.removeprefix("linux-headers-")
    place = PLACE / version
    if not (place / "boot").is_dir():
        PLACE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=PLACE) as scratch:
            command = [
                "apt-get",
                "download",
                "-qq",
                "-o",
                "APT::Sandbox::User=root",
                f"linux-image-{version}",
            ]
            subprocess.run(command, check=True, cwd=scratch)
            [package] = Path(scratch).glob("*.deb")
            subprocess.run(["dpkg-deb", "-x", package, place], check=True)
    return place


def build_programs() -> Path:
    """The stub modules of each family, and the program that calls them."""
    PLACE.mkdir(parents=True, exist_ok=True)
    subprocess.run(["gcc", "-O2", "-Wall", "-static", SOURCES / "app.c", "-o", PLACE / "app"], check=True)
    for family, flags in FAMILIES.items():
        place = PLACE / family
        shutil.copytree(SOURCES, place, dirs_exist_ok=True)
        command = ["make", "-s", "-C", headers(), f"M={place}", f"STUB_FLAGS={flags}", "modules"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return PLACE


def initial_ram_disk(image: Path, command: str) -> Path:
    """An archive with busybox, the modules for the shared root, and what to run in it."""
    with tempfile.TemporaryDirectory(dir=PLACE) as scratch:
        root = Path(scratch)
        for name in ("bin", "modules", "proc", "sys", "dev", "host", "changes", "root"):
            (root / name).mkdir()
        shutil.copy(BUSYBOX, root / "bin" / "busybox")
        [modules] = (image / "lib" / "modules").iterdir()
        for index, name in enumerate(GUEST_MODULES):
            shutil.copy(modules / "kernel" / f"{name}.ko", root / "modules" / f"{index}-{Path(name).name}.ko")
        init = root / "init"
        init.write_text(INIT % command)
        init.chmod(0o755)
        archive = PLACE / "initrd"
        names = subprocess.run(["find", "."], cwd=root, capture_output=True, check=True).stdout
        packed = ["cpio", "--quiet", "-o", "-H", "newc"]
        archive.write_bytes(
            subprocess.run(packed, cwd=root, input=names, capture_output=True, check=True).stdout
        )
    return archive


def run_in_guest(arguments: list[str]) -> str:
    """What ``python ARGUMENTS`` printed in the guest, with the kernel's own words."""
    words = " ".join(arguments)
    path = f"{CHECKOUT}:{CHECKOUT / 'services'}"
    environment = f"PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp PYTHONPATH={path} PYTHONDONTWRITEBYTECODE=1"
    command = f"cd {CHECKOUT} && env {environment} {sys.executable} {words}"
    image = kernel_image()
    archive = initial_ram_disk(image, command)
    [kernel] = (image / "boot").glob("vmlinuz-*")
    with tempfile.TemporaryDirectory() as scratch:
        socket = Path(scratch, "root.sock")
        share = [VIRTIOFSD, f"--socket-path={socket}", "-o", "source=/", "-o", "cache=always"]
        with subprocess.Popen(
            [*share, "-o", "sandbox=chroot"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as server:
            try:
                _await(socket)
                return _boot(kernel, archive, socket)
            finally:
                server.kill()


def _await(socket: Path) -> None:
    deadline = time.monotonic() + STARTED_S
    while not socket.exists():
        assert time.monotonic() < deadline, "virtiofsd does not start"
        time.sleep(0.05)


def _boot(kernel: Path, archive: Path, socket: Path) -> str:
    memory = "memory-backend-memfd,id=memory,size=2048M,share=on"
    command = ["qemu-system-x86_64", "-M", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2"]
    command += ["-m", "2048", "-object", memory, "-numa", "node,memdev=memory"]
    command += [
        "-chardev",
        f"socket,id=root,path={socket}",
        "-device",
        "vhost-user-fs-pci,chardev=root,tag=host",
    ]
    command += ["-kernel", str(kernel), "-initrd", str(archive)]
    command += ["-append", "console=ttyS0 quiet panic=-1 mitigations=off"]
    command += ["-nographic", "-no-reboot", "-nodefaults", "-serial", "stdio", "-net", "none"]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    return done.stdout.replace("\r", "") + done.stderr
