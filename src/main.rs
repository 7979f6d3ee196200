//! Oncegate: idempotency as a service. See `oncegate --help`.

use std::process::ExitCode;

/// Every call allocates and frees a few dozen times on whichever thread it is; the system's allocator
/// takes a fifth of the server's time for that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    oncegate::cmd::main()
}
