//! What an embedded server costs: it is ready at once and needs little memory. The promised limits
//! are those of the release binary; a debug build has looser ones.

use std::fs;
use std::time::Duration;

use oncegate::testkit::load::Ledger;
use oncegate::testkit::process::Server;
use tokio::time::Instant;

use crate::client::{gate, is_release, program, work};
use crate::rig::alone;

/// Start to ready, and resident memory in KiB.
fn limits() -> (Duration, u64) {
    if is_release() {
        (Duration::from_millis(500), 40 * 1024)
    } else {
        (Duration::from_secs(2), 80 * 1024)
    }
}

/// Resident memory of a process, in KiB.
fn resident(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("the process runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number
        .and_then(|number| number.parse().ok())
        .expect("the kernel tells the memory")
}

#[tokio::test]
async fn an_embedded_server_is_ready_at_once_and_needs_little_memory() {
    let _alone = alone().await;
    let (ready_within, resident_max) = limits();
    let mut server = Server::prepare(program(), &[]);
    // The first start makes the file.
    let mut starts = [Duration::ZERO; 5];
    for start in &mut starts {
        let begun = Instant::now();
        server.launch().await;
        *start = begun.elapsed();
        let process = server.process_id().expect("it runs");
        assert!(
            resident(process) < resident_max,
            "{} KiB at the start",
            resident(process)
        );
        let (gate, ledger) = (gate(&server), Ledger::default());
        for n in 0..20 {
            work(&gate, &ledger, &format!("{process}-{n}")).await;
        }
        assert_eq!(ledger.acknowledged(), 20);
        assert!(
            resident(process) < resident_max,
            "{} KiB when idle",
            resident(process)
        );
        server.kill().await;
    }
    starts.sort();
    eprintln!("ready after {starts:?}");
    let median = starts[starts.len() / 2];
    assert!(median < ready_within, "ready only after {median:?}");
}
