#!/usr/bin/env bash
# Shows Hotslot on a machine with a GPU and its driver: cautious steps first, each with a time limit. The others run also
# when one fails or hangs; what a step tells is in its file as soon as it is told.
#
#   bash bench/gpu/run.sh first          look facts facts-warm kernels doctor same pinned contract events
#   bash bench/gpu/run.sh second         copy calls train bench above memcheck lost after
#   bash bench/gpu/run.sh [step…]        the steps that are named; both halves when none is
#   bash bench/gpu/run.sh --limits       every step's limit in seconds, and the sum of each half: at most ten minutes
#
# It runs in the archive that `npm run stage:gpu` packed into carry/, which has Node too; without one in this clone, built.
#
# DEVICE   the device to test (cuda:0)
# OUT      the folder that takes the results (./gpu-results)
# WORK     a folder with dist, build and node_modules to run in, in place of the archive
# LIMIT    no step may take longer than so many seconds; calls=4: this step may not
# REHEARSE set where the driver is no GPU's: short benchmarks, no record
set -uo pipefail
tree=$(cd "$(dirname "$0")/../.." && pwd)
device=${DEVICE:-cuda:0}
index=${device#*:}
case $index in *[!0-9]* | '') index=0 ;; esac

declare -A limits=(
  [look]=30 [facts]=100 [facts-warm]=60 [kernels]=20 [doctor]=30 [same]=100 [pinned]=35 [contract]=150 [events]=25
  [copy]=20 [calls]=20 [train]=45 [above]=130 [memcheck]=40 [lost]=70 [after]=10
  [bench-driver]=30 [bench-transfer]=45 [bench-learner]=20 [bench-tick]=45 [bench-graph]=20 [bench-seen]=15 [bench-full-iteration]=20
  [bench-prefetch]=20 [bench-halo]=20
)
benches="bench-driver bench-seen bench-transfer bench-learner bench-tick bench-graph bench-full-iteration bench-prefetch bench-halo"
first="look facts facts-warm kernels doctor same pinned contract events"
second="copy calls train $benches above memcheck lost after"

sum() {
  local total=0 each
  for each in "$@"; do total=$((total + limits[$each])); done
  echo "$total"
}
steps=()
[ $# -gt 0 ] || set -- first second
for each in "$@"; do
  case $each in
  first) steps+=($first) ;;
  second) steps+=($second) ;;
  bench) steps+=($benches) ;;
  tests) steps+=(same pinned contract above lost) ;;
  --limits)
    for each in $first $second; do echo "$each ${limits[$each]}"; done
    echo "first $(sum $first)"
    echo "second $(sum $second)"
    exit 0
    ;;
  *)
    [ -n "${limits[$each]:-}" ] || { echo "there is no step '$each'; there are: $first $second" >&2; exit 2; }
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
# step NAME FILE COMMAND…: what it prints goes to the file, what it complains about to the log.
step() {
  local name=$1 file=$out/$2 limit=${limits[$1]} most begin=$SECONDS said how code=
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
  printf '%-21s %-18s %4s s\n' "$name" "$how" $((SECONDS - begin)) | tee -a "$out/steps.txt"
  [ "$how" = ok ] || tail -c +$((said + 1)) "$log" | grep . | tail -n 4 | cut -c1-300 | sed 's/^/    /'
}
# The whole group of a step. What hangs inside the kernel does not end, and is not waited for.
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
