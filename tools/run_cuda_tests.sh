#!/usr/bin/env bash
# Runs the tests and benchmarks that need an NVIDIA GPU, and writes what they say to a folder:
#   OUT=results bash tools/run_cuda_tests.sh                 everything
#   bash tools/run_cuda_tests.sh results rows programs       some stages, results in the folder named first
# Stages: rows flow faults programs interop library conformance bench, and wgpu by name alone (conformance on the GPU's
# Vulkan driver; its loader and the package wgpu must be there); all but bench run at the same time, each in a process of its own.
# It installs nothing.  PYTHON names the interpreter (python3); EXTRA_PATH is put on PYTHONPATH behind the repository;
# STAGE_SECONDS bounds each stage (420).  Ends with 1 if any stage failed, having run them all.
set -uo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$root"

if (( $# )); then OUT="$1"; shift; fi
out="${OUT:-$root/cuda-results}"
stages=("$@")
(( ${#stages[@]} )) || stages=(rows flow faults programs interop library conformance bench)
mkdir -p "$out"
out="$(cd "$out" && pwd)"

python="${PYTHON:-python3}"
export PYTHONPATH="$root${EXTRA_PATH:+:$EXTRA_PATH}${PYTHONPATH:+:$PYTHONPATH}"
export PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS="${OMP_NUM_THREADS:-2}"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
export POOT_CACHE_DIR="${POOT_CACHE_DIR:-$scratch/poot}" TRITON_CACHE_DIR="${TRITON_CACHE_DIR:-$scratch/triton}"
seconds="${STAGE_SECONDS:-420}"

{
    date -u
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv 2>&1 || true
    "$python" - <<'PY'
import importlib, sys
print("Python", sys.version)
for name in ("numpy", "cupy", "triton", "torch", "jax", "llvmlite", "ml_dtypes", "optree", "pytest", "hypothesis"):
    try:
        module = importlib.import_module(name)
        print(name, getattr(module, "__version__", "?"), module.__file__)
    except Exception as error:
        print(name, "is missing:", repr(error))
import poot
for report in poot.devices():
    print(report)
print("target", poot.device("cuda").target.to_json())
PY
} > "$out/environment.txt" 2>&1
cat "$out/environment.txt"

# Warnings of the packages that happen to be here are no failures of ours.
run_pytest=(timeout -k 10 "$seconds" "$python" -m pytest -q -p no:cacheprovider -o filterwarnings=default --tb=short --durations=8)

# On one device, module by module, eight at a time; a line for each that ends.
conformance() {
    local device="$1" folder="$out/conformance-$1" code=0
    mkdir -p "$folder"
    printf '%s\n' tests/conformance/test_*.py | xargs -P 8 -I{} bash -c '
        module="$1" folder="$2"; shift 2
        export POOT_CACHE_DIR="$POOT_CACHE_DIR-$(basename "$module")" TRITON_CACHE_DIR="$TRITON_CACHE_DIR-$(basename "$module")"
        "$@" --maxfail=20 "$module" > "$folder/$(basename "$module").txt" 2>&1
        code=$?
        echo "$module: exit $code, $(tail -n 1 "$folder/$(basename "$module").txt")"
        exit $(( code == 5 ? 0 : code ))
    ' _ {} "$folder" "${run_pytest[@]}" --device "$device" || code=1
    grep -ahE "^(FAILED|ERROR)" "$folder"/*.txt
    return "$code"
}

stage() {
    local name="$1"
    case "$name" in
        rows|flow|faults|programs|interop|library) "${run_pytest[@]}" -m cuda "tests/cuda/test_cuda_$name.py" ;;
        conformance) conformance cuda ;;
        wgpu) conformance wgpu ;;
        bench) timeout -k 10 "$seconds" "$python" -m benchmarks.cuda_launch ;;
        *) echo "no such stage: $name" >&2; return 2 ;;
    esac
}

failed=0
declare -A jobs
finish() {
    local name="$1" code="$2"
    echo "== $name: exit $code"
    grep -aE "^(FAILED|ERROR)|passed|failed|error" "$out/$name.txt" | tail -n 40
    (( code == 0 )) || failed=1
}
for name in "${stages[@]}"; do
    [[ "$name" == bench ]] && continue
    ( POOT_CACHE_DIR="$POOT_CACHE_DIR-$name" TRITON_CACHE_DIR="$TRITON_CACHE_DIR-$name"
      export POOT_CACHE_DIR TRITON_CACHE_DIR
      stage "$name" > "$out/$name.txt" 2>&1 ) &
    jobs[$name]=$!
done
for name in "${stages[@]}"; do
    [[ "$name" == bench ]] && continue
    wait "${jobs[$name]}"
    finish "$name" $?
done
for name in "${stages[@]}"; do
    [[ "$name" == bench ]] || continue
    stage bench > "$out/bench.txt" 2>&1
    finish bench $?
    cat "$out/bench.txt"
done
exit "$failed"
