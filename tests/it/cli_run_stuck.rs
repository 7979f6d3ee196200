//! `oncegate run` while something does not move: its output that nobody reads, a server that does not
//! answer. Outcomes are reported and signals obeyed all the same.

use std::time::Duration;

use oncegate::testkit::process::{Ended, Server};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Child;
use tokio::time::{Instant, sleep, timeout};

use crate::cli::server;
use crate::cli_run::{gated, runs};
use crate::cli_run_crash::{begun, send, signal};

const LIMIT: Duration = Duration::from_secs(30);
/// Fills a pipe that nobody reads and leaves the rest in the one of the command.
const FILL: &str = "echo x >> ran; head -c 100000 /dev/zero | tr '\\0' a";

async fn until_state(server: &Server, state: &str) {
    let deadline = Instant::now() + LIMIT;
    loop {
        let found = server.run(&["lookup", "k"]).await;
        if found.code == 0 && found.row("state") == state {
            return;
        }
        assert!(Instant::now() < deadline, "not {state} in time: {found:?}");
        sleep(Duration::from_millis(50)).await;
    }
}

/// Waits for the end without reading anything.
async fn code(run: &mut Child) -> Option<i32> {
    let status = timeout(LIMIT, run.wait()).await.expect("it ends in time");
    status.expect("it is waited for").code()
}

/// Reads standard error up to a line that has these words.
async fn until_told(run: &mut Child, words: &str) {
    let told = BufReader::new(run.stderr.as_mut().expect("it is piped"));
    let mut lines = told.lines();
    let search = async {
        while let Some(line) = lines.next_line().await.expect("it is text") {
            if line.contains(words) {
                return true;
            }
        }
        false
    };
    assert_eq!(
        timeout(LIMIT, search).await,
        Ok(true),
        "nobody said {words}"
    );
}

async fn end(run: Child) -> Ended {
    let output = timeout(LIMIT, run.wait_with_output()).await;
    Ended::from(output.expect("it ends in time").expect("it ends"))
}

#[tokio::test]
async fn an_outcome_is_reported_while_nobody_reads_the_output() {
    for (to, code) in [("", 3), (" >&2", 4)] {
        let server = server().await;
        let script = format!("({FILL}){to}; exit {code}");
        let run = begun(&server, &[], &script).await;
        until_state(&server, "COMPLETED").await;
        let run = end(run).await;
        let shown = run.expect(code).stdout.len() + run.stderr.len();
        assert_eq!(shown, 100_000, "what was not read yet is passed on");
        let replay = server.run(&gated(&[], &script)).await;
        assert!(replay.expect(code).stdout.len() + replay.stderr.len() >= 100_000);
        assert_eq!(runs(&server), 1);
    }
}

#[tokio::test]
async fn a_killed_command_is_parked_while_nobody_reads_its_errors() {
    let server = server().await;
    let script = format!("({FILL}) >&2; kill -9 $$");
    let run = begun(&server, &[], &script).await;
    until_state(&server, "PARKED").await;
    end(run).await.expect(137);
}

#[tokio::test]
async fn a_run_whose_output_nobody_reads_can_be_stopped() {
    let server = server().await;
    let script = format!("{FILL}; exit 3");
    let mut run = begun(&server, &[], &script).await;
    until_state(&server, "COMPLETED").await;
    // From a moment on that is surely after the command's end.
    sleep(Duration::from_secs(1)).await;
    signal(&run, "TERM").await;
    assert_eq!(code(&mut run).await, Some(3));
}

#[tokio::test]
async fn a_signal_reaches_a_command_whose_output_nobody_reads() {
    let server = server().await;
    let mut run = begun(&server, &[], "echo x >> ran; exec yes").await;
    signal(&run, "TERM").await;
    until_state(&server, "PARKED").await;
    sleep(Duration::from_secs(1)).await;
    signal(&run, "TERM").await;
    assert_eq!(code(&mut run).await, Some(143));
}

#[tokio::test]
async fn a_replay_that_nobody_reads_can_be_stopped() {
    let server = server().await;
    let script = format!("{FILL}; exit 3");
    server.run(&gated(&[], &script)).await.expect(3);
    let mut replay = server.command(&gated(&[], &script));
    let mut replay = replay.spawn().expect("it starts");
    sleep(Duration::from_secs(1)).await;
    signal(&replay, "TERM").await;
    let ended = timeout(LIMIT, replay.wait())
        .await
        .expect("it ends in time");
    assert!(!ended.expect("it is waited for").success());
}

#[tokio::test]
async fn a_signal_from_before_the_report_does_not_end_it() {
    let mut server = server().await;
    // What is left behind holds the output, and so the report back, for two seconds.
    let mut run = begun(&server, &[], "echo x >> ran; sleep 20 & exit 0").await;
    server.kill().await;
    signal(&run, "TERM").await;
    until_told(&mut run, "not recorded yet").await;
    server.launch().await;
    end(run).await.expect(0);
    let found = server.run(&["lookup", "k"]).await;
    assert_eq!(found.row("state"), "COMPLETED");
}

#[tokio::test]
async fn a_report_that_is_stopped_says_what_is_known() {
    let mut server = server().await;
    let script = "echo x >> ran; until test -e go; do sleep 0.05; done; exit 5";
    let mut run = begun(&server, &[], script).await;
    server.kill().await;
    std::fs::write(server.folder().join("go"), "").expect("it is written");
    until_told(&mut run, "not recorded yet").await;
    sleep(Duration::from_secs(1)).await;
    signal(&run, "TERM").await;
    let run = end(run).await;
    for part in ["stopped by SIGTERM", "ended with 5", "the next run"] {
        assert!(run.expect(108).stderr.contains(part), "{part}: {run:?}");
    }
}

#[tokio::test]
async fn a_second_signal_ends_the_giving_back() {
    let server = server().await;
    send(server.process_id(), "STOP").await;
    let mut run = server.command(&gated(&[], "echo x >> ran"));
    let mut run = run.spawn().expect("it starts");
    sleep(Duration::from_millis(500)).await;
    signal(&run, "TERM").await;
    until_told(&mut run, "a second signal ends this").await;
    let asked_at = Instant::now();
    signal(&run, "TERM").await;
    assert_eq!(code(&mut run).await, Some(143));
    // Alone it would take three calls of ten seconds.
    assert!(asked_at.elapsed() < Duration::from_secs(15));
    assert_eq!(runs(&server), 0);
}

#[tokio::test]
async fn a_right_to_recover_is_given_back_when_stopped_before_the_start() {
    for (flags, code) in [(&[][..], 102), (&["--repeatable"][..], 0)] {
        let server = server().await;
        let script = "echo x >> ran; test -e again || exec sleep 30; echo done";
        let short = [flags, &["--lease", "1s"]].concat();
        let run = begun(&server, &short, script).await;
        signal(&run, "KILL").await;
        end(run).await.expect(137);
        sleep(Duration::from_millis(1200)).await;

        let process = server.process_id();
        send(process, "STOP").await;
        let stopped = server.command(&gated(flags, script)).spawn();
        let stopped = stopped.expect("it starts");
        sleep(Duration::from_millis(500)).await;
        signal(&stopped, "TERM").await;
        sleep(Duration::from_millis(300)).await;
        send(process, "CONT").await;
        end(stopped).await.expect(143);
        assert_eq!(runs(&server), 1);
        std::fs::write(server.folder().join("again"), "").expect("it is written");
        let next = server.run(&gated(flags, script)).await;
        next.expect(code);
    }
}
