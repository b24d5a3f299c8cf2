# Main process of a sandbox: root, idle, and the worker's standing hand inside it. It prepares the container, then
# answers one line for each line on stdin. When stdin ends (the worker died) or its time is up it exits, and the
# container with every process in it ends too.
#
# Arguments: workdir, agent uid, agent home, grader uid, grader home, seconds to live, socket path.
# Lines in:  SEQ VERB [ARGUMENT]      Lines out: SEQ ok|fault [TEXT]; the first answer has SEQ 0.
# Verbs: ping · enter SECONDS · count UID · kill UID · oom · ttl SECONDS · own UID · walk PATH · file PATH. Paths come escaped for printf %b.
#
# Answers to `kill` use builtins only: they must work while the agent has used up every process slot.
set -u
export LC_ALL=C
unset BASH_ENV ENV CDPATH
umask 022
workdir=$1 agent=$2 agent_home=$3 grader=$4 grader_home=$5 deadline=$6 socket=$7
SECONDS=0

fault() {
  printf '%s fault %s\n' "$1" "${2//$'\n'/ }"
}

know_user() { # NAME UID HOME: a line in passwd and group, for programs that look themselves up
  local name id known_user=no known_group=no
  while IFS=: read -r name _ id _; do [[ $id == "$2" ]] && known_user=yes; done </etc/passwd
  while IFS=: read -r name _ id _; do [[ $id == "$2" ]] && known_group=yes; done </etc/group
  [[ $known_user == yes ]] || printf '%s:x:%s:%s::%s:/bin/bash\n' "$1" "$2" "$2" "$3" >>/etc/passwd
  [[ $known_group == yes ]] || printf '%s:x:%s:\n' "$1" "$2" >>/etc/group
}

# Each program that is started here is time until the sandbox is ready: one a directory, and none for what is there.
prepare() {
  install -d -o "$agent" -g "$agent" -m 0700 -- "$agent_home" || return
  install -d -o "$grader" -g "$grader" -m 0700 -- "$grader_home" || return
  [[ -d /tmp && -d /etc ]] || mkdir -p -- /tmp /etc || return
  # A /tmp in memory comes as it should be.
  [[ -k /tmp ]] || chmod 1777 /tmp || return
  if [[ ! -d $workdir ]]; then
    install -d -o "$agent" -g "$agent" -m 0755 -- "$workdir" || return
  elif [[ $(stat -L -c %u -- "$workdir") != "$agent" ]]; then
    # Only when it must be: changing an owner copies the file up from the image.
    chown -R -P -h -- "$agent:$agent" "$workdir/" || return
  fi
  [[ -e /etc/passwd ]] || printf 'root:x:0:0:root:/root:/bin/bash\n' >/etc/passwd
  [[ -e /etc/group ]] || printf 'root:x:0:\n' >/etc/group
  know_user agent "$agent" "$agent_home" && know_user grader "$grader" "$grader_home"
}

# Hands the working directory over. What stands in its place is replaced by an empty one, and its owner may always
# enter it, so that no trick with the directory itself keeps a verifier from starting.
own() {
  if [[ -L $workdir || ! -d $workdir ]]; then
    rm -rf -- "$workdir" && mkdir -- "$workdir" || return
  fi
  chown -R -P -h -- "$1:$1" "$workdir" && chmod u+rwx -- "$workdir"
}

kill_pass() { # SEQ UID SIGNAL: signals every process of UID once; says how many there were, and how many ended while looked at
  local -a found=()
  local dir key a b c d state mine seen threads gone=0
  for dir in /proc/[0-9]*; do
    state='' mine=no seen=no threads=1
    while read -r key a b c d; do
      case $key in
        State:) state=$a ;;
        Uid:)
          seen=yes
          [[ $a == "$2" || $b == "$2" || $c == "$2" || $d == "$2" ]] || break
          mine=yes
          ;;
        # A dead leader whose threads live on is shown as a zombie.
        Threads:) threads=$a && break ;;
      esac
    done 2>/dev/null <"$dir/status"
    if [[ $seen == no ]]; then
      gone=$((gone + 1))
    elif [[ $mine == yes ]] && ! [[ $state == [ZX] && $threads -le 1 ]]; then
      found+=("${dir#/proc/}")
    fi
  done
  [[ ${#found[@]} -eq 0 ]] || kill -s "$3" "${found[@]}"
  printf '%s ok %s %s\n' "$1" "${#found[@]}" "$gone"
}

oom_kills() { # SEQ: processes the kernel ended for want of memory in this container
  local file key value count=0
  for file in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
    [[ -r $file ]] || continue
    while read -r key value; do [[ $key == oom_kill ]] && count=$value; done <"$file"
  done
  printf '%s ok %s\n' "$1" "$count"
}

# Follows PATH from / as far as its components are directories. A symbolic link is followed when root made it (the
# image's own) and never when anybody else did. Leaves the physical path in `walked`, and what is left in `rest`.
walk() {
  local part
  walked='' rest=${1#/}
  while [[ $rest != '' ]]; do
    part=${rest%%/*}
    if [[ $part != '' ]]; then
      if [[ -L $walked/$part ]]; then
        [[ $(stat -c %u -- "$walked/$part") == 0 ]] || return 0
        cd -P -- "$walked/$part" || return 0
        walked=${PWD%/}
      elif [[ -d $walked/$part ]]; then
        walked=$walked/$part
      else
        return 0
      fi
    fi
    if [[ $rest == */* ]]; then rest=${rest#*/}; else rest=''; fi
  done
}

say_socket() { # SEQ: whether the gateway's socket is seen
  if [[ -S $socket ]]; then printf '%s ok socket\n' "$1"; else printf '%s ok no-socket\n' "$1"; fi
}

answer() {
  local seq=$1 verb=$2 argument=$3 path text name walked rest
  case $verb in
    ping) printf '%s ok\n' "$seq" ;;
    # An episode enters: its time begins now.
    enter) deadline=$((SECONDS + argument)) && say_socket "$seq" ;;
    kill) kill_pass "$seq" "$argument" KILL ;;
    # Signal 0 reaches nobody.
    count) kill_pass "$seq" "$argument" 0 ;;
    oom) oom_kills "$seq" ;;
    ttl) deadline=$((deadline + argument)) && printf '%s ok\n' "$seq" ;;
    own)
      if text=$(own "$argument" 2>&1); then
        printf '%s ok\n' "$seq"
      else
        fault "$seq" "$text"
      fi
      ;;
    walk)
      printf -v path %b "$argument"
      walk "$path"
      printf '%s ok %s\t%s\n' "$seq" "${walked:-/}" "$rest"
      ;;
    file)
      printf -v path %b "$argument"
      name=${path##*/}
      walk "${path%/*}"
      if [[ $rest == '' && $name != '' && -f $walked/$name && ! -L $walked/$name ]]; then
        printf '%s ok yes\n' "$seq"
      else
        printf '%s ok no\n' "$seq"
      fi
      ;;
    *) fault "$seq" "unknown verb $verb" ;;
  esac
}

if ! text=$(prepare 2>&1); then
  fault 0 "${text:-cannot prepare the container}"
  exit 1
fi
workdir=$(cd -P -- "$workdir" && pwd)
cd /
say_socket 0

while :; do
  left=$((deadline - SECONDS))
  [[ $left -gt 0 ]] || exit 0
  read -r -t "$left" seq verb argument
  status=$?
  if [[ $status -gt 128 ]]; then continue; fi
  [[ $status -eq 0 ]] || exit 0
  answer "$seq" "$verb" "$argument" 2>/dev/null
  cd /
done
