# Stands in a sandbox beside a CLI that was started ahead and waits for its prompt, as root, and answers a line with a line:
#   ready   `ready` once that CLI has come to rest, or `gone` when it ended. What it read on its way there is noted.
#   look    `same` when all of that is still as it was noted, else `changed`; then this ends, as it does with its stdin.
# Arguments: working directory, home of the agent, path of the CLI, a word of its command line that nothing else has.
#
# What CLI 2.1.332 reads before its prompt (traced): the working directory itself; .git and .claude there and in every
# directory above, and HEAD there; whether there is a git; settings for the machine and of its user; the time zone. The
# date, the shell and its start-up files it reads with the prompt. It rewrites ~/.claude.json itself, and only while it
# starts: a later change is somebody else's.
set -u
export LC_ALL=C
unset BASH_ENV ENV CDPATH
workdir=$1 home=$2 cli=$3 word=$4
cd -P -- "$workdir" || exit 1
physical=${PWD%/}
settled=5 # seconds after which the CLI has written its own file

settings=(
  /etc/localtime /etc/claude-code
  /etc/claude-code/{managed-settings.json,managed-settings.d,managed-mcp.json,.claude}
  /home/claude/.claude
  "$home"/.config/anthropic
  "$home"/.claude/{settings.json,settings.local.json,.credentials.json,.config.json}
  "$home"/.claude/{agents,commands,skills,workflows,output-styles}
  "$home"/.claude/plugins/{installed_plugins.json,known_marketplaces.json}
)

find_cli() { # leaves its process id in `pid`
  local dir
  local -a words
  for dir in /proc/[0-9]*; do
    mapfile -d '' -t words 2>/dev/null <"$dir/cmdline" || continue
    [[ ${words[0]-} == "$cli" && " ${words[*]} " == *" $word "* ]] || continue
    pid=${dir#/proc/}
    return 0
  done
  return 1
}

# Waits until the CLI sleeps and uses no processor time: it has started then. False when it ended.
rest() {
  local stat pid found=no quiet=0 before=-9 used
  local -a fields
  while [[ $quiet -lt 3 ]]; do
    sleep 0.1
    if find_cli && IFS= read -r stat 2>/dev/null <"/proc/$pid/stat"; then
      found=yes
      read -r -a fields <<<"${stat##*) }"
      used=$((fields[11] + fields[12]))
      # Ticks of 10 ms: a CLI that has only just begun has used none either.
      if [[ ${fields[0]} == S && $used -ge 10 && $((used - before)) -le 1 ]]; then
        quiet=$((quiet + 1))
      else
        quiet=0
      fi
      before=$used
    elif [[ $found == yes ]]; then
      return 1
    fi
  done
}

note() { # leaves in `noted` what the CLI has read, or would read now
  local dir=$physical name
  noted=
  [[ . -ef $workdir ]] || noted+=$'another working directory\n'
  while :; do
    for name in .git .claude; do
      if [[ -e $dir/$name || -L $dir/$name ]]; then noted+=$dir/$name$'\n'; fi
    done
    [[ -n $dir ]] || break
    dir=${dir%/*}
  done
  if [[ -e $physical/HEAD ]]; then noted+=$'HEAD\n'; fi
  noted+="git $(type -P git)"$'\n'
  noted+=$(stat -c '%n %i %s %Y' -- "${settings[@]}" 2>/dev/null)
}

while IFS= read -r line; do
  case $line in
    ready)
      if rest; then
        note
        before=$noted
        printf -v since '%(%s)T' -1
        echo ready
      else
        echo gone
      fi
      ;;
    look)
      note
      written=$(stat -c %Y -- "$home/.claude.json" 2>/dev/null) || written=0
      if [[ $noted == "$before" && $written -le $((since + settled)) ]]; then echo same; else echo changed; fi
      exit 0
      ;;
  esac
done
