# Ends what verify commands that ran as root left running. Root's processes cannot be told apart by their owner, so
# everything goes that was not there before the commands: their daemons, whoever these run as, but not the main process
# of the sandbox, nor what else works in it.
# Standard input: NUL-terminated `PID:START` of what was there. Exits 1 when some of the rest will not die.
export LC_ALL=C
declare -A spared=()
while IFS= read -r -d '' one; do spared[$one]=1; done

look() {
  local process pid stat fields
  found=()
  for process in /proc/[0-9]*; do
    pid=${process#/proc/}
    [[ $pid != "$$" && $pid != "$PPID" ]] && IFS= read -r stat <"$process/stat" || continue
    fields=(${stat##*) })
    [[ ${fields[0]} == [ZX] || -n ${spared[$pid:${fields[19]}]-} ]] || found+=("$pid")
  done 2>/dev/null
}

clean=0
for ((pass = 0; pass < 300; pass++)); do
  look
  if [[ ${#found[@]} -eq 0 ]]; then
    clean=$((clean + 1))
    [[ $clean -lt 2 ]] || exit 0
    continue
  fi
  clean=0
  # Stopped first, so that none of them makes another meanwhile.
  kill -STOP "${found[@]}" 2>/dev/null
  kill -KILL "${found[@]}" 2>/dev/null
done
exit 1
