#!/usr/bin/env bash
# The system packages that a checkout needs. As root on Debian they are installed; elsewhere the script
# says exactly what is missing and stops. Quick when nothing is missing.
set -euo pipefail

# command -> package that brings it
declare -A COMMANDS=(
  [gcc]=gcc [make]=make [mvn]=maven [java]=openjdk-17-jre-headless [python3]=python3 [docker-compose]=docker-compose [openssl]=openssl [prometheus]=prometheus [prometheus-alertmanager]=prometheus-alertmanager
  [clang]=clang [llvm-strip]=llvm [qemu-system-x86_64]=qemu-system-x86 [cpio]=cpio [curl]=curl
)
# packages without a command of their own
PACKAGES=(libc6-dev libelf1 libbpf1 libbpf-dev python3-bpfcc busybox-static)
case "$(uname -m)" in
  x86_64) PACKAGES+=(linux-headers-cloud-amd64) ;; # any recent headers do: bcc reads types from them
  aarch64) PACKAGES+=(linux-headers-cloud-arm64) ;;
esac

missing=()
for command in "${!COMMANDS[@]}"; do
  command -v "$command" >/dev/null || missing+=("${COMMANDS[$command]}")
done
for package in "${PACKAGES[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)

[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "gpuledger needs these Debian packages, and this is no root shell on Debian:" >&2
  printf '  %s\n' "${missing[@]}" >&2
  echo "Install them (as root: apt-get install ${missing[*]}), then run make again." >&2
  exit 1
fi
echo "Installing system packages: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
