#!/usr/bin/env bash
# stacks.sh PID: prints what each thread of this process and of its descendants is doing, with its stack if a debugger
# is installed.
family() {
  local each
  echo "$1"
  for each in $(awk -v parent="$1" '$1 == "Pid:" { pid = $2 } $1 == "PPid:" && $2 == parent { print pid }' /proc/[0-9]*/status 2>/dev/null); do
    family "$each"
  done
}
debugger=$(command -v gdb || command -v cuda-gdb)
for pid in $(family "$1"); do
  command=$(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null)
  [ -n "$command" ] || continue
  echo "-- $pid: ${command:0:200}"
  case $command in bash* | timeout* | setsid* | sleep*) continue ;; esac
  for task in /proc/"$pid"/task/*; do
    echo "   ${task##*/} $(cat "$task/comm" 2>/dev/null) $(awk '$1 == "State:" { print $2 }' "$task/status" 2>/dev/null) $(cat "$task/wchan" 2>/dev/null)"
  done
  [ -z "$debugger" ] || DEBUGINFOD_URLS='' timeout -k 2 10 "$debugger" -nx -batch -p "$pid" -ex 'set pagination off' -ex 'thread apply all bt 40' 2>&1 | grep -E '^(#|Thread|[A-Za-z].*(ptrace|not permitted))'
done
exit 0
