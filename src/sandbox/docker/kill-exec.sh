# Kills what one command started: every process that carries its mark in its environment, everything in the same
# sessions, and all their descendants. Runs as the user of that command, as only that user may read the marks.
# Argument: the mark. Exits 0 when none is left, 1 when some will not die. Builtins only.
export LC_ALL=C
mark=ROLLPOOL_EXEC=$1

kill_pass() {
  local dir pid stat state parent session item grown
  local -A parents=() sessions=() victims=() lost=()
  for dir in /proc/[0-9]*; do
    pid=${dir#/proc/}
    [[ $pid != "$$" ]] && IFS= read -r stat 2>/dev/null <"$dir/stat" || continue
    read -r state parent _ session _ <<<"${stat##*) }"
    [[ $state != Z ]] || continue
    parents[$pid]=$parent
    sessions[$pid]=$session
    while IFS= read -r -d '' item; do
      if [[ $item == "$mark" ]]; then
        victims[$pid]=1
        lost[$session]=1
        break
      fi
    done 2>/dev/null <"$dir/environ"
  done
  grown=yes
  while [[ $grown == yes ]]; do
    grown=no
    for pid in "${!parents[@]}"; do
      [[ -z ${victims[$pid]-} ]] || continue
      if [[ -n ${victims[${parents[$pid]}]-} || -n ${lost[${sessions[$pid]}]-} ]]; then
        victims[$pid]=1
        grown=yes
      fi
    done
  done
  [[ ${#victims[@]} -gt 0 ]] || return 1
  kill -KILL "${!victims[@]}" 2>/dev/null
  return 0
}

for ((pass = 0; pass < 200; pass++)); do
  kill_pass || exit 0
done
exit 1
