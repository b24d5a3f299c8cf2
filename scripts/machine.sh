# What scripts/demo and scripts/test need of a machine. Sourced, not run.
# Each function makes sure of one thing, says in one line what it did, and ends with one clear message where it cannot.

say() { printf '== %s\n' "$*"; }
die() { printf 'rollpool: %s\n' "$*" >&2; exit 1; }

can_apt() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; }

apt_updated=
apt_install() {
  if [ -z "$apt_updated" ]; then
    DEBIAN_FRONTEND=noninteractive apt-get update -qq >/dev/null || die "apt-get update failed"
    apt_updated=1
  fi
  say "installing $*"
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null ||
    die "apt-get install $* failed"
}

need_node() {
  command -v node >/dev/null 2>&1 || die "Node.js 20.19 or newer is needed: https://nodejs.org"
  node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)' ||
    die "Node.js 20.19 or newer is needed, this is $(node --version)"
}

# node_modules is as the lock file says; the stamp saves the check on every run.
need_packages() {
  need_node
  local stamp=node_modules/.rollpool-lock want
  want=$(cksum <package-lock.json)
  if [ "$(cat "$stamp" 2>/dev/null)" != "$want" ]; then
    say "installing npm packages"
    npm ci --no-audit --no-fund --loglevel=error >/dev/null || die "npm ci failed"
    printf '%s' "$want" >"$stamp"
  fi
}

need_build() {
  say "building"
  npm run --silent build || die "the build failed"
}

need_redis() {
  command -v redis-server >/dev/null 2>&1 || command -v valkey-server >/dev/null 2>&1 && return
  can_apt || die "redis-server is needed: 'apt-get install redis-server' (Debian), 'brew install redis' (macOS), or set REDIS_URL"
  # The package starts a service of its own where it can; rollpool brings its own and needs only the binary.
  apt_install redis-server
}

docker_answers() { command -v docker >/dev/null 2>&1 && timeout 10 docker version >/dev/null 2>&1; }

dockerd_pid=
# Uses the daemon that is there; starts one for the time of this script where root can. Returns 1 with the reason in docker_missing.
docker_missing=
want_docker() {
  docker_answers && return 0
  if [ "$(id -u)" != 0 ]; then docker_missing="no Docker daemon answers, and only root can start one"; return 1; fi
  if ! command -v dockerd >/dev/null 2>&1; then
    if ! can_apt; then docker_missing="dockerd is not installed"; return 1; fi
    apt_install docker.io iptables cgroupfs-mount ca-certificates
  fi
  # Without an init system that mounts them, control groups of the first version are not there, and no daemon starts.
  if [ "$(stat -f -c %T /sys/fs/cgroup 2>/dev/null)" != cgroup2fs ] && ! mountpoint -q /sys/fs/cgroup/devices &&
    command -v cgroupfs-mount >/dev/null 2>&1; then
    cgroupfs-mount
  fi
  say "starting a Docker daemon for this run"
  dockerd >"${TMPDIR:-/tmp}/rollpool-dockerd.$$.log" 2>&1 &
  dockerd_pid=$!
  local left=60
  until docker_answers; do
    if ! kill -0 "$dockerd_pid" 2>/dev/null || [ "$left" = 0 ]; then
      docker_missing="dockerd does not start here: $(tail -n 1 "${TMPDIR:-/tmp}/rollpool-dockerd.$$.log")"
      return 1
    fi
    left=$((left - 1)); sleep 1
  done
}

# Stops what this script started; call it from an EXIT trap.
stop_services() {
  if [ -n "$dockerd_pid" ]; then
    kill "$dockerd_pid" 2>/dev/null || true
    wait "$dockerd_pid" 2>/dev/null || true
    rm -f "${TMPDIR:-/tmp}/rollpool-dockerd.$$.log"
    dockerd_pid=
  fi
}

# Tests of a daemon behind ssh need a server to speak to; without one they are skipped.
want_sshd() {
  [ -x /usr/sbin/sshd ] && command -v ssh-keygen >/dev/null 2>&1 && return
  can_apt || return 1
  # The package starts a service of its own where it can; the tests bring their own, on another port.
  apt_install openssh-server openssh-client
}

need_python() {
  command -v python3 >/dev/null 2>&1 || die "python3 (3.10 or newer) is needed"
  local stamp=.venv/.rollpool-stamp want
  want=$(cksum <python/pyproject.toml)
  if [ "$(cat "$stamp" 2>/dev/null)" != "$want" ]; then
    say "installing Python packages into .venv"
    if ! python3 -m venv .venv >/dev/null 2>&1; then
      can_apt || die "python3 cannot make a virtual environment: install python3-venv"
      apt_install python3-venv
      python3 -m venv .venv || die "python3 cannot make a virtual environment"
    fi
    .venv/bin/pip install --quiet --disable-pip-version-check -e 'python[dev]' || die "pip install failed"
    printf '%s' "$want" >"$stamp"
  fi
}

# The vendor's Python SDK, for the tests that hold local Fleet against it. Returns 1 with the reason in
# fleet_python_missing; the tests print it and are skipped.
fleet_python_missing=
want_fleet_python() {
  local version=0.2.133 venv=node_modules/.cache/fleet-python log want
  want="$version $(python3 --version 2>&1)"
  log="${TMPDIR:-/tmp}/rollpool-fleet-python.$$.log"
  if [ "$(cat "$venv/.rollpool-stamp" 2>/dev/null)" != "$want" ]; then
    say "installing fleet-python $version"
    rm -rf "$venv"
    if ! { python3 -m venv "$venv" &&
      "$venv/bin/pip" install --quiet --disable-pip-version-check --retries 1 "fleet-python==$version"; } >"$log" 2>&1; then
      fleet_python_missing="fleet-python $version does not install here: $(tail -n 1 "$log")"
      rm -rf "$venv" "$log"
      return 1
    fi
    rm -f "$log"
    printf '%s' "$want" >"$venv/.rollpool-stamp"
  fi
  export ROLLPOOL_FLEET_PYTHON="$PWD/$venv/bin/python"
}
