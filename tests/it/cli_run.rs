//! `oncegate run`: the command runs once, and everyone after gets what it left.

use std::time::Duration;

use oncegate::testkit::process::{Server, ended};

use crate::cli::{PROGRAM, reserved, server};

/// How often the script of a test has run: it adds a line to `ran` each time.
pub(crate) fn runs(server: &Server) -> usize {
    let ran = std::fs::read_to_string(server.folder().join("ran"));
    ran.map_or(0, |text| text.lines().count())
}

/// `run --key k … -- sh -c SCRIPT`.
pub(crate) fn gated<'a>(flags: &[&'a str], script: &'a str) -> Vec<&'a str> {
    let mut arguments = vec!["run", "--key", "k"];
    arguments.extend(flags);
    arguments.extend(["--", "sh", "-c", script]);
    arguments
}

#[tokio::test]
async fn a_command_runs_once_and_its_output_and_code_are_replayed() {
    let server = server().await;
    let script = "echo x >> ran; echo to-out; echo to-err >&2";
    let first = server.run(&gated(&[], script)).await;
    assert_eq!(first.expect(0).stdout, "to-out\n");
    assert_eq!(first.stderr, "to-err\n");

    let second = server.run(&gated(&[], script)).await;
    assert_eq!(second.expect(0).stdout, "to-out\n");
    assert!(second.stderr.starts_with("to-err\n"), "{second:?}");
    assert!(second.stderr.contains("replayed: ran at 20"), "{second:?}");
    assert_eq!(runs(&server), 1);

    let found = server.run(&["lookup", "k", "-o", "json"]).await.json();
    let outcome = &found["record"]["outcome"];
    assert_eq!(outcome["contentType"], "application/vnd.oncegate.run+json");
    assert_eq!(outcome["metadata"][0]["value"], "0");
}

#[tokio::test]
async fn a_failure_is_a_result_and_replayed_as_one() {
    let server = server().await;
    let script = "echo x >> ran; echo sorry >&2; exit 42";
    for _ in 0..3 {
        let run = server.run(&gated(&[], script)).await;
        assert!(run.expect(42).stderr.contains("sorry\n"), "{run:?}");
    }
    assert_eq!(runs(&server), 1);
    let found = server.run(&["lookup", "k"]).await;
    assert_eq!(found.row("outcome"), "FAILED");
}

#[tokio::test]
async fn another_command_under_the_same_key_is_a_mismatch() {
    let server = server().await;
    server.run(&gated(&[], "true")).await.expect(0);
    let other = server.run(&gated(&[], "echo x >> ran")).await;
    assert!(
        other.expect(101).stderr.contains("another fingerprint"),
        "{other:?}"
    );
    let named = server.run(&gated(&["--operation", "x"], "true")).await;
    assert!(
        named.expect(101).stderr.contains("another operation"),
        "{named:?}"
    );
    assert_eq!(runs(&server), 0);
}

#[tokio::test]
async fn the_same_fingerprint_lets_the_command_line_change() {
    let server = server().await;
    let flags = ["--fingerprint", "order 7"];
    server.run(&gated(&flags, "echo one")).await.expect(0);
    let other = server.run(&gated(&flags, "echo two")).await;
    assert_eq!(other.expect(0).stdout, "one\n");
}

#[tokio::test]
async fn a_run_in_progress_is_waited_for_or_told() {
    let server = server().await;
    let script = "echo x >> ran; until test -e go; do sleep 0.05; done; echo done";
    let first = server
        .command(&gated(&[], script))
        .spawn()
        .expect("it starts");
    oncegate::testkit::process::eventually("it runs", || runs(&server) == 1).await;

    let busy = server.run(&gated(&[], script)).await;
    assert!(busy.expect(100).stderr.contains("is at work"), "{busy:?}");
    let second = server.command(&gated(&["--wait", "30s"], script)).spawn();
    let second = second.expect("it starts");
    std::fs::write(server.folder().join("go"), "").expect("it is written");
    for run in [first, second] {
        let output = run.wait_with_output().await.expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(output.stdout, b"done\n");
    }
    assert_eq!(runs(&server), 1);
}

#[tokio::test]
async fn of_many_at_once_one_runs() {
    let server = server().await;
    let script = "echo x >> ran; sleep 0.2; echo $ONCEGATE_FENCE";
    let arguments = gated(&["--wait", "30s"], script);
    let racers = (0..8).map(|_| server.run(&arguments));
    let ended = futures::future::join_all(racers).await;
    for one in &ended {
        assert_eq!(one.expect(0).stdout, ended[0].stdout);
    }
    assert_eq!(runs(&server), 1);
}

#[tokio::test]
async fn a_right_is_renewed_beyond_its_lease() {
    let server = server().await;
    let script = "echo x >> ran; sleep 3; echo done";
    let first = server.command(&gated(&["--lease", "1s"], script)).spawn();
    let first = first.expect("it starts");
    oncegate::testkit::process::eventually("it runs", || runs(&server) == 1).await;
    tokio::time::sleep(Duration::from_millis(2200)).await;
    let busy = server.run(&gated(&[], script)).await;
    assert!(busy.expect(100).stderr.contains("is at work"), "{busy:?}");
    let output = first.wait_with_output().await.expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(output.stderr, b"");
}

#[tokio::test]
async fn a_command_that_cannot_be_started_leaves_the_key_free() {
    let server = server().await;
    let missing = ["run", "--key", "k", "--", "./missing"];
    assert!(
        server
            .run(&missing)
            .await
            .expect(127)
            .stderr
            .contains("./missing")
    );
    let found = server.run(&["lookup", "k"]).await;
    assert_eq!(found.row("state"), "RELEASED");

    std::fs::write(server.folder().join("missing"), "#!/bin/sh\necho here\n").expect("written");
    let barred = server.run(&missing).await;
    assert!(barred.expect(126).stderr.contains("denied"), "{barred:?}");
    let folder = server.folder().join("missing");
    let allowed = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder, allowed).expect("it is set");
    assert_eq!(server.run(&missing).await.expect(0).stdout, "here\n");
}

#[tokio::test]
async fn without_a_server_nothing_runs() {
    let server = Server::prepare(PROGRAM, &[]);
    let run = server.run(&gated(&[], "echo x >> ran")).await;
    assert!(
        run.expect(108).stderr.contains("no server answers"),
        "{run:?}"
    );
    assert_eq!(runs(&server), 0);
}

#[tokio::test]
async fn big_output_goes_through_whole_and_is_kept_in_part() {
    let server = server().await;
    let script = "head -c 3000000 /dev/zero | tr '\\0' a; echo end >&2; exit 3";
    let first = server.run(&gated(&[], script)).await;
    assert_eq!(first.expect(3).stdout.len(), 3_000_000);
    let second = server.run(&gated(&[], script)).await;
    second.expect(3);
    assert!(second.stdout.len() > 200_000 && second.stdout.len() <= 200 * 1024);
    assert!(second.stderr.starts_with("end\n"), "{}", second.stderr);
    assert!(
        second.stderr.contains("of 3000000 bytes were kept"),
        "{}",
        second.stderr
    );
}

#[tokio::test]
async fn an_output_that_the_namespace_does_not_keep_leaves_the_code() {
    let server = server().await;
    let create = ["namespace", "create", "small", "--payload-bytes-max", "10"];
    server.run(&create).await.expect(0);
    let script = "echo more than ten bytes; exit 9";
    server.run(&gated(&["-n", "small"], script)).await.expect(9);
    let replay = server.run(&gated(&["-n", "small"], script)).await;
    assert_eq!(replay.expect(9).stdout, "");
    assert!(
        replay.stderr.contains("its output was not kept"),
        "{replay:?}"
    );
}

#[tokio::test]
async fn bytes_that_are_no_text_are_replayed_as_they_were() {
    let server = server().await;
    let script = "printf '\\000\\377\\n\\033[1m'";
    let mut command = server.command(&gated(&[], script));
    let first = command.output().await.expect("it runs");
    let second = command.output().await.expect("it runs");
    assert_eq!(first.stdout, b"\0\xff\n\x1b[1m");
    assert_eq!(first.stdout, second.stdout);
}

#[tokio::test]
async fn input_reaches_the_command_and_its_keys_are_there() {
    let server = server().await;
    let input = server.folder().join("input");
    std::fs::write(&input, "from stdin").expect("it is written");
    let script = "cat; test -n \"$ONCEGATE_FENCE\" && test -n \"$ONCEGATE_DOWNSTREAM_KEY\"";
    let mut command = server.command(&gated(&[], script));
    command.stdin(std::fs::File::open(input).expect("it opens"));
    assert_eq!(ended(&mut command).await.expect(0).stdout, "from stdin");
}

#[tokio::test]
async fn a_process_left_behind_does_not_hold_the_run() {
    let server = server().await;
    let script = "sleep 20 & echo started";
    let begun = tokio::time::Instant::now();
    let run = server.run(&gated(&[], script)).await;
    assert_eq!(run.expect(0).stdout, "started\n");
    assert!(begun.elapsed() < Duration::from_secs(15));
}

#[tokio::test]
async fn a_key_that_is_not_free_says_why() {
    let server = server().await;
    let token = reserved(&server, "k").await;
    let flags = ["--operation", "op"];
    server
        .run(&["park", "k", "--token", &token, "--note", "who knows"])
        .await
        .expect(0);
    let parked = server.run(&gated(&flags, "echo x >> ran")).await;
    assert!(
        parked.expect(102).stderr.contains("who knows"),
        "{parked:?}"
    );
    let happened = [
        "resolve",
        "k",
        "--happened",
        "--payload",
        "by hand\n",
        "--reason",
        "x",
        "--yes",
    ];
    server.run(&happened).await.expect(0);
    let replay = server.run(&gated(&flags, "echo x >> ran")).await;
    assert_eq!(replay.expect(0).stdout, "by hand\n");
    server
        .run(&["expire", "k", "--reason", "x", "--yes"])
        .await
        .expect(0);
    let expired = server.run(&gated(&flags, "echo x >> ran")).await;
    assert!(
        expired.expect(104).stderr.contains("expired"),
        "{expired:?}"
    );
    assert_eq!(runs(&server), 0);
}
