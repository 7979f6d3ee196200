# Shared by the scripts of this folder; sourced, never run.
# shellcheck shell=bash

REPO=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# Absolute for the scripts that this one calls, wherever they go.
export ONCEGATE_TOOLS
ONCEGATE_TOOLS=$(realpath -m "${ONCEGATE_TOOLS:-$REPO/.tools}")
# shellcheck disable=SC2034
TOOLS=$ONCEGATE_TOOLS
UNPRIVILEGED=$REPO/scripts/lib/unprivileged

say() { printf '%s\n' "$*" >&2; }

die() {
  say "error: $*"
  exit 1
}

# Rust from rustup is often not on the PATH of a non-interactive shell.
find_cargo() {
  command -v cargo >/dev/null && return
  local home=${CARGO_HOME:-$HOME/.cargo}
  [[ -x $home/bin/cargo ]] || die "cargo is not on the PATH and not in $home/bin: install Rust (https://rustup.rs)"
  export PATH=$home/bin:$PATH
}

# Who owns what the unprivileged helper writes.
unprivileged_owner() {
  "$UNPRIVILEGED" id -u
}
