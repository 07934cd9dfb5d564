#!/usr/bin/env bash
# Installs everything that the tests need and runs the quick suite; arguments go on to pytest:
#   bash tools/test.sh                          the quick suite
#   bash tools/test.sh tests/unit -k promotion  a part of it
#   bash tools/test.sh -m "not cuda"            everything that runs without an NVIDIA GPU, as CI does
#   bash tools/test.sh -m fuzz --full           fuzzers and sweeps at their stated counts
# WORKERS sets the number of test processes (default 2); DEV_TOOLS_ONLY=1 installs and stops.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/env.sh

# ---- Debian packages that tests need: name them here, one a line. Installed only where one is missing.
debian_packages=(
    pocl-opencl-icd      # OpenCL on the CPU
    ocl-icd-libopencl1
    mesa-vulkan-drivers  # Vulkan on the CPU: lavapipe
    libvulkan1
)

install_debian_packages() {
    local missing=() name sudo=()
    for name in "$@"; do
        dpkg-query -W -f='${Status}' "$name" 2>/dev/null | grep -q 'install ok installed' || missing+=("$name")
    done
    (( ${#missing[@]} )) || return 0
    if (( EUID != 0 )); then
        if ! command -v sudo >/dev/null; then
            echo "The tests need the Debian packages ${missing[*]}: install them as root, then run this again." >&2
            return 1
        fi
        sudo=(sudo)
    fi
    echo "installing Debian packages: ${missing[*]}"
    "${sudo[@]}" apt-get update -qq
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
}

if (( ${#debian_packages[@]} )) && command -v dpkg-query >/dev/null; then
    install_debian_packages "${debian_packages[@]}"
fi
ensure_env test test,dev,opencl,wgpu
if [[ "${DEV_TOOLS_ONLY:-}" == 1 ]]; then
    exit
fi
exec "$venv/bin/python" -m pytest -n "${WORKERS:-2}" "$@"
