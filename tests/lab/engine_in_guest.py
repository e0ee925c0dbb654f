"""A Docker engine in a virtual machine: its kernel, its clock and its files are not those of this machine.

An engine in a network namespace shares all three with it. QEMU emulates the processor, so that every host can run it.
"""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import docker
from replication_lab.world import catalogue
from replication_lab.world.clock import wait_until
from replication_lab.world.docker import engine, images

IMAGE = "guest.example/engine:1"
PORT, BOOT_SECONDS, LOAD_SECONDS = 2375, 240, 900
# The date of the guest's clock when it boots.
BEHIND = "yesterday"
MEMORY = "3G"
# What Docker needs of a kernel beside what a guest of the lab's own has.
MODULES = """overlay bridge br_netfilter veth tun nft_chain_nat nft_compat nft_ct nft_masq
xt_MASQUERADE xt_addrtype xt_conntrack xt_nat xt_statistic xt_tcpudp"""
PACKAGES = "docker.io iptables kmod iproute2 e2fsprogs"
INIT = f"""#!/bin/sh
export PATH=/usr/sbin:/usr/bin HOME=/root
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p /dev/pts /dev/shm; mount -t devpts devpts /dev/pts
for each in /dev/shm /run /tmp; do mount -t tmpfs tmpfs $each; done
for each in {" ".join(MODULES.split())}; do modprobe $each; done
hostname engine
ip link set lo up; ip address add 10.88.0.2/24 dev eth0; ip link set eth0 up; ip route add default via 10.88.0.1
mkdir -p /var/lib/docker; mkfs.ext4 -q /dev/vdb; mount /dev/vdb /var/lib/docker
exec dockerd --host tcp://10.88.0.2:{PORT} --tls=false --bip 10.99.0.1/24 \\
    --default-address-pool base=10.100.0.0/16,size=24
"""
LAUNCH = f"""#!/bin/bash
set -e
ip tuntap add dev tap0 mode tap; ip address add 10.88.0.1/24 dev tap0; ip link set tap0 up
iptables --table nat --append PREROUTING ! -i tap0 --protocol tcp --jump DNAT --to-destination 10.88.0.2
truncate --size 12G /engine/data.img
disk() {{ echo "-drive if=none,id=$1,file=$2,format=raw,cache=unsafe -device virtio-blk-pci,drive=$1"; }}
exec qemu-system-x86_64 -accel tcg,thread=multi,tb-size=256 -cpu max -machine pc,graphics=off -smp 2 -m {MEMORY} \\
    -bios qboot.rom -nodefaults -no-user-config -display none -no-reboot -serial stdio \\
    -rtc base="$(date --utc --date {BEHIND} +%FT%T)" -kernel /engine/vmlinux -initrd /engine/initrd \\
    -append "console=ttyS0 net.ifnames=0 quiet loglevel=4 panic=-1 mitigations=off" \\
    $(disk root /engine/root.img) $(disk data /engine/data.img) \\
    -netdev tap,id=net,ifname=tap0,script=no,downscript=no -device virtio-net-pci,netdev=net,romfile= </dev/null
"""
# The scripts beside the lab's own machine make the kernel and its initrd.
DOCKERFILE = f"""
FROM replication-lab/base AS kernel
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends kmod xz-utils zstd busybox-static cpio \\
    && kernel=$(apt-cache depends linux-image-amd64 | sed -n 's/^ *Depends: \\(linux-image.*\\)/\\1/p') \\
    && apt-get download -qq "$kernel" \\
    && dpkg -x *.deb /unpacked && rm *.deb
COPY take-modules unpack-kernel boot-modules.txt initrd-init make-initrd /build/
RUN mkdir /out && printf '%s\\n' {" ".join(MODULES.split())} >/build/engine.txt \\
    && version=$(ls /unpacked/usr/lib/modules) \\
    && /build/unpack-kernel /unpacked/boot/vmlinuz-* /out/vmlinux \\
    && /build/take-modules /unpacked/usr $version /modules /build/engine.txt \\
    && /build/make-initrd /unpacked/usr $version /out/initrd

FROM replication-lab/base AS root
RUN apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends {PACKAGES}
COPY --from=kernel /modules/ /usr/
COPY --chmod=755 <<'INIT' /usr/local/sbin/lab-init
{INIT}INIT

FROM replication-lab/vm
COPY --from=root / /tree
COPY --from=kernel /out/ /engine/
COPY --chmod=755 <<'LAUNCH' /engine/launch
{LAUNCH}LAUNCH
RUN mkfs.ext4 -q -d /tree -m 0 /engine/root.img 1200M && rm -rf /tree
ENTRYPOINT ["/engine/launch"]
"""


@contextmanager
def engine_in_guest(*wanted: str) -> Iterator[str]:
    """Start an engine in a guest and load these images there; yield its address for DOCKER_HOST."""
    images.ensure(["vm"])
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "Dockerfile"
        file.write_text(DOCKERFILE)
        _run("docker", "build", "-q", "-t", IMAGE, "-f", str(file), str(catalogue.ROOT / "images" / "vm"))
    options: dict[str, Any] = {"cap_add": ["NET_ADMIN"], "devices": ["/dev/net/tun"]}
    options |= {"sysctls": {"net.ipv4.ip_forward": "1"}, "healthcheck": {"test": ["NONE"]}}
    with ExitStack() as stack:
        guest = engine.client().containers.run(IMAGE, detach=True, **options)
        stack.callback(guest.remove, force=True, v=True)
        guest.reload()
        (network,) = guest.attrs["NetworkSettings"]["Networks"].values()
        host = f"tcp://{network['IPAddress']}:{PORT}"

        def answers() -> bool:
            guest.reload()
            assert guest.status == "running", guest.logs(tail=20).decode()
            try:
                return bool(docker.DockerClient(host, timeout=10).ping())
            except docker.errors.DockerException:
                return False

        wait_until(answers, "the engine in the guest to answer", BOOT_SECONDS)
        for image in wanted:
            saved = subprocess.Popen(["docker", "save", image], stdout=subprocess.PIPE)
            _run("docker", "--host", host, "load", stdin=saved.stdout)
            assert saved.wait() == 0
        yield host


def _run(*command: str, stdin: object = subprocess.DEVNULL) -> None:
    subprocess.run(command, check=True, stdin=stdin, stdout=subprocess.DEVNULL, timeout=LOAD_SECONDS)  # type: ignore[call-overload]
