#!/usr/bin/env bash
# Shows Hotslot on a machine with a GPU and its driver, but neither Node nor a network. `npm run stage:gpu` has put what is
# missing into carry/. Every stage has a time limit; the others run even when one fails. The table comes last.
#
#   bash bench/gpu/run.sh [stage…]      stages: look facts tests train bench (all)
#
# DEVICE   the device to test (cuda:0)
# OUT      the folder that takes the results (./gpu-results)
# REHEARSE set where the driver is no GPU's: short benchmarks, no record
set -uo pipefail
tree=$(cd "$(dirname "$0")/../.." && pwd)
device=${DEVICE:-cuda:0}
mkdir -p "${OUT:=$PWD/gpu-results}"
out=$(cd "$OUT" && pwd)
stages=${*:-look facts tests train bench}
archive=$tree/carry/hotslot.tar.xz
log=$out/log.txt
exec 3>>"$log"

# Unpacked once per archive; what the tree has is only linked to.
work=${TMPDIR:-/tmp}/hotslot-gpu-$(cksum <"$archive" | tr -d ' ')
if [ ! -e "$work/ready" ]; then
  rm -rf "$work" && mkdir -p "$work"
  if command -v xz >/dev/null; then tar -C "$work" -xJf "$archive"
  else python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$archive" "$work"; fi || exit 1
  ln -sfn "$tree/native" "$work/native"
  ln -sfn "$tree/bench" "$work/bench"
  ln -sfn "$tree/test" "$work/test"
  touch "$work/ready"
fi
cd "$work" || exit 1
node=$work/bin/node
export PATH=$work/bin:$PATH HOTSLOT_COMMIT
HOTSLOT_COMMIT=$(cat commit)

# This machine's libraries first; Node's own are carried along for where they are missing or too old.
if ! "$node" -e "require('$work/build/Release/device.node')" 2>>"$log"; then
  export LD_LIBRARY_PATH=$work/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  "$node" -e "require('$work/build/Release/device.node')" || { echo "the addons do not load here; see $log"; exit 1; }
fi
if [ -z "${HOTSLOT_CUDA:-}" ]; then
  known=$(ldconfig -p 2>/dev/null)
  case $known in *libcuda.so.1*) ;; *) export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/usr/local/nvidia/lib64:/usr/local/nvidia/lib ;; esac
  case $known in
  *libcublas.so.1[123]*) ;;
  *)
    for each in /usr/local/cuda/lib64 /usr/local/cuda-*/lib64 /opt/*/.venv/lib/python3*/site-packages/nvidia/{cu13,cublas}/lib; do
      for version in 13 12; do
        [ -z "${HOTSLOT_CUBLAS:-}" ] && [ -e "$each/libcublas.so.$version" ] && export HOTSLOT_CUBLAS=$each/libcublas.so.$version
      done
    done
    ;;
  esac
fi

failed=0
rows=()
# stage NAME LIMIT FILE COMMAND…: what it prints goes to the file, what it complains about to the log.
stage() {
  local name=$1 limit=$2 file=$3 begin=$SECONDS code how
  shift 3
  echo "== $name: $*" >&3
  timeout -k 5 "$limit" "$@" >>"$out/$file" 2>&3
  code=$?
  case $code in 0) how=ok ;; 124 | 137) how="over its $limit s" ;; *) how="failed ($code)" ;; esac
  [ $code -eq 0 ] || failed=1
  rows+=("$(printf '%-16s %-14s %4s s' "$name" "$how" $((SECONDS - begin)))")
  echo "${rows[-1]}"
}

look() {
  uname -a
  grep -m1 'model name' /proc/cpuinfo
  nproc
  nvidia-smi --query-gpu=name,driver_version,memory.total,pcie.link.gen.current,pcie.link.width.current --format=csv || true
  echo "HOTSLOT_CUBLAS=${HOTSLOT_CUBLAS:-} LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-} commit $HOTSLOT_COMMIT"
  "$node" dist/src/cli/main.js doctor
}
export -f look
export node

record=--record
[ -z "${REHEARSE:-}" ] || record=--quick
for each in $stages; do
  case $each in
  look) stage look 30 environment.txt bash -c look ;;
  facts) CUDA_DEVICE_MAX_CONNECTIONS=32 stage facts 240 facts.json build/bench/raw_cuda facts "${device#*:}" 40 ;;
  tests) stage tests 270 tests.jsonl "$node" dist/test/gpu/run.js "$device" --json --limit 45 ;;
  train) stage train 45 train.jsonl "$node" dist/examples/cartpole-dqn/main.js --device "$device" --json --max-seconds 40 ;;
  bench)
    for name in driver transfer learner tick graph full-iteration prefetch halo; do
      stage "bench $name" 45 bench.jsonl "$node" --expose-gc dist/bench/run.js "$name" --device "$device" --json $record
    done
    cp bench/results/*.json "$out/" 2>&3
    ;;
  *) echo "there is no stage '$each'" && failed=1 ;;
  esac
done
{
  "$node" bench/gpu/table.mjs "$out"
  printf '%s\n' "${rows[@]}"
} | tee "$out/table.txt"
exit $failed
