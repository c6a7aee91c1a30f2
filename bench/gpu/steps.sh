# The steps of run.sh, which sources this file: where they run, and what each of them does.
# shellcheck shell=bash disable=SC2154

# Chooses the folder to work in and the Node to run. Unpacks an archive once, and links to the folders of the tree.
settle() {
  local archive=$tree/carry/hotslot.tar.xz each
  if [ -n "${WORK:-}" ]; then work=$(cd "$WORK" && pwd)
  elif [ -e "$archive" ]; then
    work=${TMPDIR:-/tmp}/hotslot-gpu-$(cksum <"$archive" | tr -d ' ')
    [ -e "$work/ready" ] || unpack "$archive" || return 1
    for each in native bench test docs; do ln -sfn "$tree/$each" "$work/$each"; done
  else work=$tree; fi
  cd "$work" || return 1
  if [ -x bin/node ]; then export PATH=$work/bin:$PATH; fi
  node=$(command -v node) || { echo "there is no Node here: pack an archive with npm run stage:gpu where there is one"; return 1; }
  [ -e dist/test/gpu/run.js ] || { echo "$work is not built; run: npm ci"; return 1; }
  if [ -e commit ]; then HOTSLOT_COMMIT=$(cat commit) && export HOTSLOT_COMMIT; fi
  # The addons use this machine's libraries. If these are missing or too old, they use the copies that were packed with
  # Node.
  if ! "$node" -e "require('$work/build/Release/device.node')" 2>&3; then
    library_folder "$work/lib"
    "$node" -e "require('$work/build/Release/device.node')" || { echo "the addons do not load here; see $log"; return 1; }
  fi
  [ -n "${HOTSLOT_CUDA:-}" ] || find_libraries
  find_torch
  # cuBLAS opens other libraries of its folder by name.
  case ${HOTSLOT_CUBLAS:-} in */*) library_folder "$(dirname "$HOTSLOT_CUBLAS")" ;; esac
  raw=$work/build/bench/raw_cuda
  if [ "$work" = "$tree" ] || [ ! -x "$raw" ]; then
    "$node" -e "import('$work/dist/bench/native.js').then(({ buildRawCuda }) => buildRawCuda())" 2>&3 ||
      echo "the bare driver's program does not build; see $log"
  fi
  # The driver writes to CUDA_LOG_FILE why a call failed. All steps share compiled kernels, which 'facts' compiles
  # first.
  export CUDA_LOG_FILE=$out/cuda.log CUDA_DEVICE_MAX_CONNECTIONS=32 CUDA_CACHE_PATH=$work/build/jit
  export HOTSLOT_TEST_STACKS=$out/stacks.txt
  export node raw index device out REHEARSE=${REHEARSE:-}
}

unpack() {
  rm -rf "$work" && mkdir -p "$work"
  if command -v xz >/dev/null; then tar -C "$work" -xJf "$1"
  else python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$1" "$work"; fi || return 1
  touch "$work/ready"
}

library_folder() { export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$1; }

find_libraries() {
  local known each version
  known=$(ldconfig -p 2>/dev/null)
  case $known in *libcuda.so.1*) ;; *) library_folder /usr/local/nvidia/lib64:/usr/local/nvidia/lib ;; esac
  case $known in *libcublas.so.1[123]*) return ;; esac
  for each in /usr/local/cuda/lib64 /usr/local/cuda-*/lib64 /opt/*/.venv/lib/python3*/site-packages/nvidia/{cu13,cublas}/lib \
    "$(python3 -c 'import os, nvidia; print(list(nvidia.__path__)[0])' 2>/dev/null)"/{cu13,cublas}/lib; do
    for version in 13 12; do
      [ -z "${HOTSLOT_CUBLAS:-}" ] && [ -e "$each/libcublas.so.$version" ] && export HOTSLOT_CUBLAS=$each/libcublas.so.$version
    done
  done
}

# Puts a Python with PyTorch first in the PATH, so that `python3` finds it.
find_torch() {
  local each has="import importlib.util as u, sys; sys.exit(u.find_spec('torch') is None)"
  python3 -c "$has" 2>/dev/null && return
  for each in /opt/*/.venv/bin /opt/*/bin; do
    if [ -x "$each/python3" ] && "$each/python3" -c "$has" 2>/dev/null; then export PATH=$each:$PATH && return; fi
  done
}

# Keeps a context open during the steps. Without one, the driver may start anew for every process. If only one process
# at a time may use the GPU, nothing keeps a context, because it would block the others.
kept=
keep() {
  case $device in cuda*) ;; *) return ;; esac
  case $(smi --query-gpu=compute_mode --format=csv,noheader) in *Exclusive*) echo "compute mode Exclusive: nothing keeps a context" && return ;; esac
  "$raw" keep "$index" 1500 >"$out/keep.json" 2>&3 3>&- &
  kept=$!
}
let_go() {
  [ -z "$kept" ] || kill "$kept" 2>/dev/null
  kept=
}

smi() { command -v nvidia-smi >/dev/null && timeout 10 nvidia-smi -i "$index" "$@" 2>/dev/null; }
# Writes to the log without tee, because tee would open the log again and truncate it.
left_out() { echo "left out: $1" && echo "left out: $1" >&2 && exit 77; }
# Prints the path of one of the toolkit's programs.
tool() {
  local each
  for each in "$(command -v "$1")" /usr/local/cuda*/bin/"$1" /opt/*/.venv/lib/python3*/site-packages/nvidia/*/bin/"$1" \
    /opt/*/.venv/lib/python3*/site-packages/triton/backends/nvidia/bin/"$1"; do
    if [ -x "$each" ]; then echo "$each" && return; fi
  done
  return 1
}

look() {
  uname -a
  grep -m1 'model name' /proc/cpuinfo
  nproc
  cat /proc/driver/nvidia/version 2>/dev/null
  ldconfig -p 2>/dev/null | grep -E 'libcuda|cublas|ptxjitcompiler'
  if [ -w "${HOME:-/}" ]; then echo "HOME is writable"; else echo "HOME is not writable: outside these steps every process compiles the kernels anew"; fi
  echo "HOTSLOT_CUBLAS=${HOTSLOT_CUBLAS:-} LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-} commit ${HOTSLOT_COMMIT:-of this clone}"
  smi -q -d COMPUTE,ECC,CLOCK,PCIE || smi -q -d COMPUTE,ECC,CLOCK || echo "no nvidia-smi"
  # Prints clocks and link speed under load. The driver does not keep the kernels that this compiles, because 'facts'
  # times their compilation.
  local told
  exec 4< <(CUDA_CACHE_DISABLE=1 timeout 12 "$raw" spin "$index" 2)
  read -r -t 10 told <&4 && echo "$told" && sleep 1
  smi --query-gpu=name,driver_version,compute_cap,compute_mode,memory.total,memory.used,pcie.link.gen.current,pcie.link.width.current,clocks.sm,clocks.mem --format=csv
  [ -n "$told" ]
}

kernels() {
  local ptxas cuobjdump sm
  cp native/kernels/images/kernels.ptx "$out" || exit 1
  ptxas=$(tool ptxas) || left_out "no ptxas here"
  sm=$(smi --query-gpu=compute_cap --format=csv,noheader | tr -dc 0-9)
  "$ptxas" --version | tail -n 2
  "$ptxas" -arch="sm_${sm:-90}" -v -o "$out/kernels.cubin" "$out/kernels.ptx" 2>&1 || exit 1
  echo "assembled for sm_${sm:-90}"
  cuobjdump=$(tool cuobjdump) || { echo "no cuobjdump here"; exit 0; }
  # Counts fused multiply-adds. Only division and roots may have them.
  "$cuobjdump" -sass "$out/kernels.cubin" | awk '/Function :/ { name = $NF } /FFMA/ { count[name]++ } END { for (name in count) print "FFMA", name, count[name] }'
}

doctor() {
  "$node" dist/src/cli/main.js doctor
  local code=$?
  "$node" --input-type=module -e "
    import { openDevice } from '$PWD/dist/src/index.js';
    console.log('matrix products:', openDevice('$device').traits.matrixProducts);" || code=1
  return $code
}

events() {
  HOTSLOT_TEST_DEVICE=$device "$node" node_modules/mocha/bin/mocha.js --no-config --timeout 20000 --exit --fail-zero \
    --fgrep 'record events for outsiders' dist/test/device/contract.test.js
}

memcheck() {
  local sanitizer
  sanitizer=$(tool compute-sanitizer) || left_out "no compute-sanitizer here"
  HOTSLOT_TEST_DEVICE=$device "$sanitizer" --tool memcheck "$node" node_modules/mocha/bin/mocha.js --no-config --timeout 0 \
    dist/test/gpu/same-as-host.test.js
}

after() {
  smi --query-gpu=memory.used,ecc.errors.uncorrected.volatile.total --format=csv || left_out "no nvidia-smi here"
  smi --query-compute-apps=pid,name,used_memory --format=csv
  smi -q -d ECC,PAGE_RETIREMENT
  dmesg 2>/dev/null | grep -i 'NVRM: Xid' || echo "no Xid that may be read"
}

export -f smi left_out tool look kernels doctor events memcheck after

run_step() {
  local name=$1 record=--record rounds=50 bytes=67108864 calls=200 seconds=40
  case $device:$name in
  cuda*) ;;
  *:facts* | *:kernels | *:copy | *:calls | *:memcheck | *:after)
    printf '%-21s %-18s\n' "$name" 'left out: NVIDIA only' | tee -a "$out/steps.txt"
    return
    ;;
  esac
  if [ -n "$REHEARSE" ]; then record=--quick rounds=3 bytes=4194304 calls=20 seconds=10; fi
  case $name in
  look) step look look.txt bash -c look ;;
  facts) rm -rf "$CUDA_CACHE_PATH" && step facts facts.jsonl "$raw" facts "$index" 12 ;;
  facts-warm) step facts-warm facts-warm.jsonl "$raw" facts "$index" 10 ;;
  kernels) step kernels kernels.txt bash -c kernels ;;
  doctor)
    step doctor doctor.txt bash -c doctor
    grep '^matrix products:' "$out/doctor.txt" | grep -v ': cuBLAS' | sed 's/^/!! no cuBLAS; /' | tee -a "$out/steps.txt"
    ;;
  same) tests same 45 ;;
  pinned) tests pinned 30 ;;
  # These run every test once. Where there is more time, npm run test:gpu runs each failed test again alone.
  contract) tests contract 20 --once ;;
  above) tests above 60 --once ;;
  lost) tests lost 20 --once ;;
  events) step events events.txt bash -c events ;;
  copy) step copy copy.json "$raw" copy "$index" "$rounds" "$bytes" ;;
  calls) step calls calls.json "$raw" calls "$index" "$calls" ;;
  train)
    step train train.jsonl "$node" dist/examples/cartpole-dqn/main.js --device "$device" --json --max-seconds "$seconds" \
      --trace "$out/train.trace.json"
    ;;
  bench-* | torch | peers) bench "$name" "${name#bench-}" "$record" ;;
  # NVIDIA's libraries read this variable when they are loaded.
  torch-tf32) NVIDIA_TF32_OVERRIDE=1 bench torch-tf32 torch-tf32 "$record" ;;
  memcheck) step memcheck memcheck.txt bash -c memcheck ;;
  # The memory is free only after no process keeps a context.
  after) let_go && sleep 1 && step after after.txt bash -c after ;;
  esac
}

bench() {
  step "$1" "bench-${1#bench-}.jsonl" "$node" --expose-gc dist/bench/run.js "$2" --device "$device" --json "$3"
  [ -n "$REHEARSE" ] || cp bench/results/*.json "$out/" 2>&3
}

# Runs each unit of tests in a process, with this limit in seconds. It is longer than the ten seconds after which a
# latch opens by itself.
tests() { step "$1" "tests-$1.jsonl" "$node" dist/test/gpu/run.js "$device" --json --only "$1" --limit "$2" "${@:3}"; }

tell_table() { "$node" "$tree/bench/gpu/table.mjs" "$out" 2>&3 | tee "$out/table.txt"; }
