# Makes room for the verifier where the agent may have chosen every byte, following none of its symbolic links.
#
# Arguments: the working directory; `home` for a new home of whoever verifies, or nothing; seconds of the epoch at which
# the agent started, or nothing; its home; mode of the directories that are made empty; then these directories, absolute.
# Standard input, NUL-terminated: paths below the working directory to take hashes of, an empty one, then paths that must
# not exist afterwards. On the way to each of these whatever is no directory is removed, so that an upload cannot be led
# elsewhere.
# Standard output, NUL-terminated: `hash SHA256 PATH` (`-` for what is no regular file), `grown BYTES` (in large files since
# the agent started), `taken PATH` (somebody had put something there), `dir PATH` (where an emptied directory really is),
# `home PATH`, `process PID:START` (what runs now: none of it is the verifier's), or `blocked PATH` and exit 1.
set -u
export LC_ALL=C
workdir=$1 home=$2 since=$3 agent_home=$4 mode=$5
shift 5

say() { printf '%s\0' "$1"; }
blocked() {
  say "blocked $1"
  exit 1
}

# Whether only root can have put the link $1 of the current directory there.
roots_link() {
  [[ $(stat -c %u -- "$1") == 0 && $(stat -c %u .) == 0 ]] && [[ $(stat -c %A .) != ????????w? ]]
}

# Makes PATH an empty directory of ours.
empty_directory() {
  local rest=${1#/} part
  cd / || blocked "$1"
  while [[ $rest == */* ]]; do
    part=${rest%%/*}
    rest=${rest#*/}
    if [[ -L $part ]] && ! roots_link "$part"; then rm -f -- "$part"; fi
    if [[ -e $part && ! -d $part ]]; then rm -f -- "$part"; fi
    [[ -d $part ]] || mkdir -- "$part" || blocked "$1"
    cd -P -- "./$part" || blocked "$1"
  done
  if [[ -L $rest || -e $rest ]]; then
    if [[ -L $rest || ! -d $rest || -n $(find "./$rest" -mindepth 1 -print -quit) ]]; then say "taken $1"; fi
    rm -rf -- "$rest" 2>/dev/null
    # What is mounted there can be emptied, and not removed.
    if [[ -L $rest || ( -e $rest && ! -d $rest ) ]]; then blocked "$1"; fi
    if [[ -d $rest && -n $(find "./$rest" -mindepth 1 -print -quit) ]]; then blocked "$1"; fi
  fi
  [[ -d $rest ]] || mkdir -- "$rest" || blocked "$1"
  chown 0:0 -- "$rest" && chmod "$mode" -- "$rest" || blocked "$1"
  cd -P -- "./$rest" || blocked "$1"
  say "dir $PWD"
}

# Large files that are newer than the agent, by the time of their last change, which nobody can set. A look of some
# seconds at most.
grown() {
  local size total=0
  while IFS= read -r size; do total=$((total + size)); done < <(
    timeout -k 1 3 find "$workdir" "$agent_home" /tmp -xdev -type f -size +1024k -newerct "@$since" -printf '%s\n' 2>/dev/null
  )
  say "grown $total"
}

hash_of() { # PATH below the working directory
  local at=$workdir/$1 sum
  if [[ -L $at || ! -f $at ]]; then
    say "hash - $1"
  elif read -r sum _ < <(sha256sum <"$at" 2>/dev/null); then
    say "hash $sum $1"
  fi
}

if [[ -n $since ]]; then grown; fi
while IFS= read -r -d '' path && [[ -n $path ]]; do hash_of "$path"; done
for directory in "$@"; do empty_directory "$directory"; done

cd /
if [[ -L $workdir || ( -e $workdir && ! -d $workdir ) ]]; then
  say "taken $workdir"
  rm -f -- "$workdir"
fi
mkdir -p -- "$workdir" && [[ ! -L $workdir ]] || blocked "$workdir"
chmod -R u+rwX -- "$workdir"
# Python takes unchecked byte code for the verifier's own modules, and where the image puts the working directory on its
# path, it runs these two before anything else.
find "$workdir" -xdev -depth \( -name __pycache__ -o -name sitecustomize.py -o -name usercustomize.py \) \
  -exec rm -rf -- {} +
while IFS= read -r -d '' path; do
  rest=$path
  at=$workdir
  while :; do
    name=${rest%%/*}
    at=$at/$name
    if [[ $rest == "$name" ]]; then
      if [[ -e $at || -L $at ]]; then
        say "taken $at"
        rm -rf -- "$at"
        if [[ -e $at || -L $at ]]; then blocked "$at"; fi
      fi
      break
    fi
    rest=${rest#*/}
    if [[ -L $at || ( -e $at && ! -d $at ) ]]; then rm -f -- "$at" || blocked "$at"; fi
    [[ -d $at ]] || break
  done
done
if [[ $home == home ]]; then say "home $(mktemp -d)"; fi
for process in /proc/[0-9]*; do
  IFS= read -r stat 2>/dev/null <"$process/stat" || continue
  fields=(${stat##*) })
  [[ ${process#/proc/} == "$$" ]] || say "process ${process#/proc/}:${fields[19]-}"
done
exit 0
