# Starts and stops the private servers of one run; sourced, never run.
#
# A run folder holds everything of one run: data, logs, sockets, and `env`, the
# variables that the tests read. Servers listen on 127.0.0.1 on a free port.
# shellcheck shell=bash

# shellcheck source=postgres.sh
. "$REPO/scripts/lib/postgres.sh"
# shellcheck source=redis.sh
. "$REPO/scripts/lib/redis.sh"

POSTGRES_VERSIONS=(15 18)

# Below the range that the kernel gives to outgoing connections, so that no
# connection of a test takes the port between the look and the start.
free_port() {
  local port
  for _ in $(seq 200); do
    port=$((RANDOM % 12000 + 20000))
    if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
      printf '%s\n' "$port"
      return
    fi
  done
  die "no free port between 20000 and 32000"
}

# The other user must be able to reach the folder and to write in it.
new_run_folder() {
  local run
  run=$(mktemp -d "${TMPDIR:-/tmp}/oncegate.XXXXXX")
  chmod 711 "$run"
  "$UNPRIVILEGED" test -x "$run" || die "$run is out of reach of the user that Postgres runs as: set TMPDIR"
  printf '%s\n' "$run"
}

# start_services RUN: all servers, and the variables for the tests in RUN/env.
start_services() {
  local run=$1 bin_15 bin_18 pgbouncer
  bin_15=$(distribution_postgres_bin) || die "the distribution's Postgres is not installed"
  bin_18=$(postgres_18_bin) || die "Postgres 18 is not installed under $TOOLS"
  bin_18=$(reachable_18 "$bin_18" "$run/programs")
  pgbouncer=$(pgbouncer_path) || die "pgbouncer is not installed"
  (umask 077 && : >"$run/env")
  start_postgres "$run" 15 "$bin_15"
  start_postgres "$run" 18 "$bin_18"
  start_redis "$run"
  printf "export ONCEGATE_TEST_PGBOUNCER='%s'\n" "$pgbouncer" >>"$run/env"
  printf "export ONCEGATE_TEST_UNPRIVILEGED='%s'\n" "$UNPRIVILEGED" >>"$run/env"
}

# stop_services RUN: what this run started and nothing else, then its folder.
stop_services() {
  local run=$1 version
  [[ -d $run ]] || return 0
  stop_redis "$run"
  for version in "${POSTGRES_VERSIONS[@]}"; do stop_postgres "$run" "$version" || return 1; done
  rm -rf "$run"
}

# True while every server of the run answers.
services_answer() {
  local run=$1 version
  redis_answers "$run" || return 1
  for version in "${POSTGRES_VERSIONS[@]}"; do postgres_answers "$run" "$version" || return 1; done
}
