#!/usr/bin/env bash
# Tests Hotslot on a machine with a GPU and its driver. The cautious steps are first, and each step has a time limit. If a step
# fails or hangs, the others still run. A step's output is in its file as soon as the step prints it.
#
#   bash bench/gpu/run.sh first          the card, its driver, the kernels, the device contract
#   bash bench/gpu/run.sh second         everything that is built on devices, at the end the tests that lose the card
#   bash bench/gpu/run.sh third          figures: PyTorch on the same card, benchmarks, a training
#   bash bench/gpu/run.sh [step…]        the named steps; 'bench' is all benchmarks, 'tests' all tests
#   bash bench/gpu/run.sh --limits       every step's limit in seconds, and the sums of the three groups: at most five minutes each
#
# It runs in the archive that `npm run stage:gpu` packed into carry/, which also has Node. Without an archive it runs in this
# clone, which must be built.
#
# DEVICE   the device to test (cuda:0)
# OUT      the folder for the results (./gpu-results)
# WORK     a folder with dist, build and node_modules to run in, instead of the archive
# LIMIT    the most seconds that any step may take, or NAME=SECONDS for one step, such as calls=4
# REHEARSE not empty: short benchmarks without a record, for a driver that is not a GPU's
set -uo pipefail
tree=$(cd "$(dirname "$0")/../.." && pwd)
device=${DEVICE:-cuda:0}
index=${device#*:}
case $index in *[!0-9]* | '') index=0 ;; esac

declare -A limits=(
  [look]=20 [facts]=60 [facts-warm]=35 [kernels]=15 [doctor]=20 [same]=70 [pinned]=15 [contract]=55 [events]=10
  [above]=140 [memcheck]=45 [lost]=100 [after]=15
  [torch]=65 [torch-tf32]=60 [peers]=60 [copy]=10 [calls]=10 [train]=25
  [bench-driver]=15 [bench-seen]=10 [bench-graph]=10 [bench-full-iteration]=15
  [bench-transfer]=60 [bench-learner]=45 [bench-tick]=60 [bench-prefetch]=45 [bench-halo]=60 [bench-products]=30
)
short_benches="bench-graph bench-seen bench-full-iteration bench-driver"
benches="$short_benches bench-transfer bench-learner bench-tick bench-prefetch bench-halo bench-products"
first="look facts facts-warm kernels doctor same pinned contract events"
second="above memcheck lost after"
third="copy calls train torch peers torch-tf32 $short_benches"

sum() {
  local total=0 each
  for each in "$@"; do total=$((total + limits[$each])); done
  echo "$total"
}
steps=()
[ $# -gt 0 ] || set -- first second third
for each in "$@"; do
  case $each in
  first) steps+=($first) ;;
  second) steps+=($second) ;;
  third) steps+=($third) ;;
  bench) steps+=($benches) ;;
  tests) steps+=(same pinned contract above lost) ;;
  --limits)
    for each in $first $second $third; do echo "$each ${limits[$each]}"; done
    echo "first $(sum $first)"
    echo "second $(sum $second)"
    echo "third $(sum $third)"
    exit 0
    ;;
  *)
    [ -n "${limits[$each]:-}" ] || { echo "there is no step '$each'; there are: first second third bench tests, or $first $second copy calls train torch peers torch-tf32 $benches" >&2; exit 2; }
    steps+=("$each")
    ;;
  esac
done

mkdir -p "${OUT:=$PWD/gpu-results}"
out=$(cd "$OUT" && pwd)
log=$out/log.txt
exec 3>>"$log"
# shellcheck source=bench/gpu/steps.sh
. "$tree/bench/gpu/steps.sh"
settle || exit 1

failed=0
running=
# step NAME FILE COMMAND…: runs the command with the step's time limit. FILE receives its output, and the log its
# errors.
step() {
  local name=$1 file=$out/$2 limit=${limits[$1]} most begin=$SECONDS said how why code=
  shift 2
  most=${LIMIT:-}
  case $most in "$name"=*) most=${most#*=} ;; *=*) most= ;; esac
  if [ -n "$most" ] && [ "$limit" -gt "$most" ]; then limit=$most; fi
  [ ! -s "$file" ] || mv "$file" "$file.before"
  echo "== $name: $*" >&3
  said=$(wc -c <"$log")
  setsid "$@" >"$file" 2>&3 3>&- &
  running=$!
  while kill -0 "$running" 2>/dev/null && [ $((SECONDS - begin)) -lt "$limit" ]; do sleep 0.1; done
  if kill -0 "$running" 2>/dev/null; then
    how="over its $limit s"
    echo "== $name, over its $limit s" >>"$out/stacks.txt"
    timeout -k 2 25 bash "$tree/bench/gpu/stacks.sh" "$running" >>"$out/stacks.txt" 2>&1
    end_group "$running" || how+=", and does not end"
    failed=1
  else
    wait "$running"
    code=$?
    case $code in 0) how=ok ;; 77) how='left out' ;; *) how="failed ($code)" failed=1 ;; esac
  fi
  running=
  why=
  [ "$how" != 'left out' ] || why=" $(tail -c +$((said + 1)) "$log" | sed -n 's/^left out: //p' | tail -n 1)"
  printf '%-21s %-18s %4s s%s\n' "$name" "$how" $((SECONDS - begin)) "$why" | tee -a "$out/steps.txt"
  [ "$how" = ok ] || [ "$how" = 'left out' ] || tail -c +$((said + 1)) "$log" | grep . | tail -n 4 | cut -c1-300 | sed 's/^/    /'
}
# Ends the step's process group. Does not wait for a process that hangs inside the kernel.
end_group() {
  local signal
  for signal in TERM KILL; do
    kill -"$signal" -- "-$1" 2>/dev/null
    for _ in 1 2 3 4 5 6 7 8 9 10; do
      kill -0 "$1" 2>/dev/null || break
      sleep 0.2
    done
  done
  kill -KILL -- "-$1" 2>/dev/null
  ! kill -0 "$1" 2>/dev/null
}
finish() {
  trap - EXIT
  [ -z "$running" ] || end_group "$running"
  let_go
  tell_table
  exit "$failed"
}
trap finish EXIT
trap 'failed=1; exit' INT TERM

keep
for each in "${steps[@]}"; do run_step "$each"; done
