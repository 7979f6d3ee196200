//! Oncegate: idempotency as a service. See `oncegate --help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    oncegate::cmd::main()
}
