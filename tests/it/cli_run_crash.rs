//! `oncegate run` when something is killed: what is not known is never run again by itself.

use std::time::Duration;

use oncegate::testkit::process::{Ended, Server, eventually};
use tokio::process::{Child, Command};

use crate::cli::server;
use crate::cli_run::{gated, runs};

/// A run whose command has begun.
pub(crate) async fn begun(server: &Server, flags: &[&str], script: &str) -> Child {
    let before = runs(server);
    let run = server
        .command(&gated(flags, script))
        .spawn()
        .expect("it starts");
    eventually("the command runs", || runs(server) > before).await;
    run
}

/// Sends a signal to the run itself.
pub(crate) async fn signal(run: &Child, name: &str) {
    send(run.id(), name).await;
}

/// Sends a signal to a process that runs.
pub(crate) async fn send(process: Option<u32>, name: &str) {
    let process = process.expect("it runs").to_string();
    let sent = Command::new("kill")
        .args(["-s", name, &process])
        .status()
        .await;
    assert!(sent.expect("kill runs").success());
}

async fn end(run: Child) -> Ended {
    Ended::from(run.wait_with_output().await.expect("it ends"))
}

#[tokio::test]
async fn a_killed_command_is_parked() {
    let server = server().await;
    let script = "echo x >> ran; kill -9 $$";
    let killed = server.run(&gated(&[], script)).await;
    assert!(killed.expect(137).stderr.contains("parked"), "{killed:?}");
    let next = server.run(&gated(&[], script)).await;
    assert!(
        next.expect(102).stderr.contains("killed by signal 9"),
        "{next:?}"
    );
    assert_eq!(runs(&server), 1);
}

#[tokio::test]
async fn a_killed_command_that_is_repeatable_runs_again() {
    let server = server().await;
    let script = "echo x >> ran; test -e again || kill -9 $$; echo done";
    let flags = ["--repeatable", "--lease", "1s", "--wait", "20s"];
    server.run(&gated(&flags, script)).await.expect(137);
    std::fs::write(server.folder().join("again"), "").expect("it is written");
    let next = server.run(&gated(&flags, script)).await;
    assert_eq!(next.expect(0).stdout, "done\n");
    assert_eq!(runs(&server), 2);
}

#[tokio::test]
async fn a_run_that_was_cut_off_is_parked_by_the_next() {
    let server = server().await;
    let script = "echo x >> ran; exec sleep 30";
    let flags = ["--lease", "1s", "--wait", "20s"];
    let run = begun(&server, &flags, script).await;
    signal(&run, "KILL").await;
    end(run).await.expect(137);

    let next = server.run(&gated(&flags, script)).await;
    next.expect(102);
    assert!(next.stderr.contains("was cut off"), "{next:?}");
    assert!(next.stderr.contains("what it did is not known"), "{next:?}");
    assert_eq!(runs(&server), 1);
    let found = server.run(&["lookup", "k"]).await;
    assert_eq!(found.row("state"), "PARKED");
}

#[tokio::test]
async fn a_person_approves_another_run() {
    let server = server().await;
    let script = "echo x >> ran; test -e again || kill -9 $$; echo done";
    server.run(&gated(&[], script)).await.expect(137);
    std::fs::write(server.folder().join("again"), "").expect("it is written");
    let resolve = [
        "resolve",
        "k",
        "--nothing-happened",
        "--reason",
        "looked",
        "--yes",
    ];
    server.run(&resolve).await.expect(0);
    let next = server.run(&gated(&[], script)).await;
    assert_eq!(next.expect(0).stdout, "done\n");
    assert!(next.stderr.contains("a person has approved"), "{next:?}");
    server.run(&gated(&[], script)).await.expect(0);
    assert_eq!(runs(&server), 2);
}

#[tokio::test]
async fn a_repeatable_run_that_was_cut_off_runs_again() {
    let server = server().await;
    let script = "echo x >> ran; test -e again || exec sleep 30; echo done";
    let flags = ["--repeatable", "--lease", "1s", "--wait", "20s"];
    let run = begun(&server, &flags, script).await;
    signal(&run, "KILL").await;
    end(run).await.expect(137);

    std::fs::write(server.folder().join("again"), "").expect("it is written");
    let next = server.run(&gated(&flags, script)).await;
    assert_eq!(next.expect(0).stdout, "done\n");
    assert!(next.stderr.contains("running it again"), "{next:?}");
    assert_eq!(runs(&server), 2);
}

#[tokio::test]
async fn a_signal_reaches_the_command_and_its_answer_counts() {
    let server = server().await;
    for (name, code) in [("TERM", 7), ("INT", 7), ("HUP", 7)] {
        std::fs::remove_file(server.folder().join("ran")).ok();
        let script = format!("trap 'exit 7' {name}; echo x >> ran; while :; do sleep 0.05; done");
        let key = format!("key-{name}");
        let arguments = ["run", "--key", &key, "--", "sh", "-c", &script];
        let run = server.command(&arguments).spawn().expect("it starts");
        eventually("the command runs", || runs(&server) == 1).await;
        signal(&run, name).await;
        end(run).await.expect(code);
        server.run(&arguments).await.expect(code);
        assert_eq!(runs(&server), 1);
    }
}

#[tokio::test]
async fn a_signal_that_ends_the_command_parks_it() {
    let server = server().await;
    let script = "echo x >> ran; exec sleep 30";
    let run = begun(&server, &[], script).await;
    signal(&run, "TERM").await;
    let run = end(run).await;
    assert!(
        run.expect(143).stderr.contains("killed by signal 15"),
        "{run:?}"
    );
    server.run(&gated(&[], script)).await.expect(102);
}

#[tokio::test]
async fn a_run_that_waits_can_be_stopped_and_leaves_nothing_behind() {
    let server = server().await;
    let script = "echo x >> ran; until test -e go; do sleep 0.05; done; exit 3";
    let first = begun(&server, &[], script).await;
    let mut second = server.command(&gated(&["--wait", "10m"], script));
    let second = second.spawn().expect("it starts");
    tokio::time::sleep(Duration::from_millis(500)).await;
    signal(&second, "TERM").await;
    end(second).await.expect(143);
    std::fs::write(server.folder().join("go"), "").expect("it is written");
    end(first).await.expect(3);
    server.run(&gated(&[], script)).await.expect(3);
    assert_eq!(runs(&server), 1);
}

#[tokio::test]
async fn an_outcome_is_reported_until_the_server_is_back() {
    let mut server = server().await;
    let script = "echo x >> ran; until test -e go; do sleep 0.05; done; echo done";
    let run = begun(&server, &[], script).await;
    server.kill().await;
    std::fs::write(server.folder().join("go"), "").expect("it is written");
    tokio::time::sleep(Duration::from_millis(300)).await;
    server.launch().await;
    let run = end(run).await;
    assert_eq!(run.expect(0).stdout, "done\n");
    let next = server.run(&gated(&[], script)).await;
    assert_eq!(next.expect(0).stdout, "done\n");
    assert_eq!(runs(&server), 1);
}

#[tokio::test]
async fn an_outcome_that_nobody_takes_is_said_loudly() {
    let mut server = server().await;
    let script = "echo x >> ran; until test -e go; do sleep 0.05; done; exit 5";
    let run = begun(&server, &["--report-timeout", "500ms"], script).await;
    server.kill().await;
    std::fs::write(server.folder().join("go"), "").expect("it is written");
    let run = end(run).await;
    run.expect(108);
    assert!(run.stderr.contains("could not be recorded"), "{run:?}");
    assert!(run.stderr.contains("ended with 5"), "{run:?}");
}

#[tokio::test]
async fn the_run_that_was_cut_off_is_named_not_the_one_that_parked() {
    let server = server().await;
    let script = "echo x >> ran; test -e again || exec sleep 30; echo done";
    let flags = ["--lease", "1s", "--wait", "20s", "--holder", "first"];
    let run = begun(&server, &flags, script).await;
    signal(&run, "KILL").await;
    end(run).await.expect(137);
    let flags = ["--wait", "20s", "--holder", "second"];
    let second = server.run(&gated(&flags, script)).await;
    assert!(second.expect(102).stderr.contains("by first"), "{second:?}");

    std::fs::write(server.folder().join("again"), "").expect("it is written");
    let finding = ["--nothing-happened", "--reason", "looked", "--yes"];
    let resolve = [&["resolve", "k"][..], &finding].concat();
    server.run(&resolve).await.expect(0);
    let third = server.run(&gated(&[], script)).await;
    assert!(third.expect(0).stderr.contains("by first"), "{third:?}");
}
