# One private Redis; sourced by services.sh, never run. It keeps nothing on disk, and is stopped by the
# process id that it wrote down itself.
# shellcheck shell=bash

# start_redis RUN: appends its URL to RUN/env.
start_redis() {
  local run=$1 port
  for _ in 1 2 3; do
    port=$(free_port)
    redis-server --bind 127.0.0.1 --port "$port" --save '' --appendonly no --dir "$run" \
      --daemonize yes --pidfile "$run/redis.pid" --logfile "$run/redis.log" >/dev/null
    for _ in $(seq 50); do
      if redis-cli -p "$port" ping >/dev/null 2>&1 && [[ -s $run/redis.pid ]]; then
        printf "export ONCEGATE_TEST_REDIS='redis://127.0.0.1:%s'\n" "$port" >>"$run/env"
        say "Redis $(redis-server --version | grep -o 'v=[0-9.]*' | cut -c 3-) on port $port"
        return
      fi
      sleep 0.1
    done
  done
  cat "$run/redis.log" >&2
  die "Redis did not start"
}

redis_answers() {
  local port
  port=$(sed -n "s/.*ONCEGATE_TEST_REDIS='redis:\/\/127.0.0.1:\([0-9]*\)'/\1/p" "$1/env")
  [[ -n $port ]] && redis-cli -p "$port" ping >/dev/null 2>&1
}

stop_redis() {
  [[ -s $1/redis.pid ]] || return 0
  kill "$(cat "$1/redis.pid")" 2>/dev/null || true
}
