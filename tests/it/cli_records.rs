//! Commands on one record: their tables, their JSON and their exit codes.

use oncegate::testkit::process::{Server, bare, ended};

use crate::cli::{PROGRAM, reserved, server};

#[tokio::test]
async fn a_record_is_reserved_completed_and_replayed() {
    let server = server().await;
    let granted = server
        .run(&["reserve", "k", "--operation", "op", "--fingerprint", "a"])
        .await;
    granted.expect(0);
    assert_eq!(granted.row("verdict"), "GRANTED");
    assert_eq!(granted.row("attempt"), "1");
    let fence: i64 = granted.row("fence").parse().expect("a number");
    assert!(fence > 0);
    assert!(granted.row("downstream key").starts_with("og_"));
    assert_eq!(granted.stderr, "");

    let token = granted.row("token");
    let complete = [
        "complete",
        "k",
        "--token",
        token,
        "--payload",
        "{\"slot\":7}",
        "--content-type",
        "application/json",
        "--effect-id",
        "slot-7",
        "--metadata",
        ":status=201",
    ];
    let first = server.run(&complete).await;
    assert_eq!(first.expect(0).row("verdict"), "RECORDED");
    assert_eq!(first.row("state"), "COMPLETED");
    let again = server.run(&complete).await;
    assert_eq!(again.expect(0).row("verdict"), "ALREADY_RECORDED");

    let replay = server
        .run(&["reserve", "k", "--operation", "op", "--fingerprint", "a"])
        .await;
    replay.expect(0);
    assert_eq!(replay.row("verdict"), "REPLAY");
    assert_eq!(replay.row("outcome"), "SUCCEEDED");
    assert_eq!(replay.row("payload"), "{\"slot\":7}");
    assert_eq!(replay.row("effect id"), "slot-7");
    assert_eq!(replay.row("metadata"), ":status=201");
}

#[tokio::test]
async fn json_has_the_names_of_the_protocol() {
    let server = server().await;
    let reserve = ["reserve", "k", "--operation", "op", "-o", "json"];
    let granted = server.run(&reserve).await.expect(0).json();
    let held = &granted["granted"];
    assert!(held["fence"].is_string(), "{granted}");
    assert!(
        held["leaseRemaining"]
            .as_str()
            .expect("a duration")
            .ends_with('s')
    );
    assert_eq!(held["durability"], "DURABILITY_SINGLE_NODE");
    assert_eq!(granted["fingerprintNotCompared"], false);

    let token = held["token"].as_str().expect("a token");
    let failed = [
        "complete",
        "k",
        "--token",
        token,
        "--status",
        "failed",
        "--payload",
        "no",
        "-o",
        "json",
    ];
    let recorded = server.run(&failed).await.expect(0).json();
    assert_eq!(recorded["verdict"], "VERDICT_RECORDED");
    assert_eq!(recorded["outcomeUsed"], true);

    let replay = server.run(&reserve).await.expect(0).json();
    let outcome = &replay["replay"]["outcome"];
    assert_eq!(outcome["status"], "OUTCOME_STATUS_FAILED");
    assert_eq!(outcome["payload"], "bm8=");
    let completed_at = replay["replay"]["completedAt"].as_str().expect("a time");
    assert!(completed_at.ends_with('Z'), "{completed_at}");

    let found = server.run(&["lookup", "k", "-o", "json"]).await;
    let record = &found.expect(0).json()["record"];
    assert_eq!(record["state"], "RECORD_STATE_COMPLETED");
    assert_eq!(record["key"]["key"], "k");
    assert!(record["etag"].as_str().is_some_and(|etag| !etag.is_empty()));
}

#[tokio::test]
async fn each_verdict_has_its_exit_code() {
    let server = server().await;
    reserved(&server, "k").await;
    let busy = server.run(&["reserve", "k", "--operation", "op"]).await;
    assert_eq!(busy.expect(100).row("verdict"), "IN_PROGRESS");
    let other = server.run(&["reserve", "k", "--operation", "x"]).await;
    assert_eq!(other.expect(101).row("verdict"), "MISMATCH");
    let json = ["reserve", "k", "--operation", "x", "-o", "json"];
    let other = server.run(&json).await.expect(101).json();
    assert_eq!(other["mismatch"]["field"], "FIELD_OPERATION");
}

#[tokio::test]
async fn a_holder_renews_releases_and_is_told_when_its_token_is_stale() {
    let server = server().await;
    let token = reserved(&server, "k").await;
    let renew = ["renew", "k", "--token", &token, "--lease", "45s"];
    let renewed = server.run(&renew).await;
    assert_eq!(renewed.expect(0).row("held"), "yes");
    let lease = renewed.row("lease");
    assert!(lease.starts_with("44") || lease == "45s", "{lease}");

    let release = ["release", "k", "--token", &token, "--reason", "not sent"];
    let released = server.run(&release).await;
    assert_eq!(released.expect(0).row("released"), "yes");
    assert_eq!(released.row("state"), "RELEASED");

    let second = reserved(&server, "k").await;
    assert_ne!(second, token);
    let stale = server.run(&renew).await;
    assert_eq!(stale.expect(105).row("held"), "no");
    let json = ["release", "k", "--token", &token, "-o", "json"];
    assert_eq!(
        server.run(&json).await.expect(105).json()["released"],
        false
    );
}

#[tokio::test]
async fn another_outcome_is_a_conflict_and_the_first_stays() {
    let server = server().await;
    let token = reserved(&server, "k").await;
    let complete = |payload| ["complete", "k", "--token", &token, "--payload", payload];
    server.run(&complete("one")).await.expect(0);
    let divergent = server.run(&complete("two")).await;
    assert_eq!(divergent.expect(109).row("verdict"), "DIVERGENT");
    assert_eq!(divergent.row("payload"), "one");
}

#[tokio::test]
async fn a_parked_record_is_resolved_by_a_person() {
    let server = server().await;
    let token = reserved(&server, "k").await;
    let park = ["park", "k", "--token", &token, "--note", "timed out"];
    let parked = server.run(&park).await;
    assert_eq!(parked.expect(0).row("parked"), "yes");
    let reserve = ["reserve", "k", "--operation", "op", "--can-recover"];
    let asked = server.run(&reserve).await;
    assert_eq!(asked.expect(102).row("verdict"), "PARKED");
    assert!(asked.row("meaning").contains("timed out"));

    // Approved once more: the next one finds out, and may run.
    let nothing = [
        "resolve",
        "k",
        "--nothing-happened",
        "--reason",
        "they have no such order",
        "--yes",
    ];
    let resolved = server.run(&nothing).await;
    assert_eq!(resolved.expect(0).row("state"), "RECOVERING");
    let recover = server.run(&reserve).await;
    assert_eq!(recover.expect(103).row("verdict"), "RECOVER");
    assert!(recover.stdout.contains("approved one more run"));
    let reexecute = ["reexecute", "k", "--token", recover.row("token")];
    let granted = server.run(&reexecute).await;
    assert_eq!(granted.expect(0).row("verdict"), "GRANTED");
    let stale = server.run(&reexecute).await;
    assert_eq!(stale.expect(105).row("verdict"), "SUPERSEDED");

    // Not parked any more.
    let late = server.run(&nothing).await;
    assert!(
        late.expect(110).stderr.contains("NOT_RESOLVABLE"),
        "{late:?}"
    );
}

#[tokio::test]
async fn what_a_person_found_out_is_replayed() {
    let server = server().await;
    let token = reserved(&server, "k").await;
    let etag = async || {
        let seen = server.run(&["lookup", "k", "-o", "json"]).await.json();
        seen["record"]["etag"].as_str().expect("an etag").to_owned()
    };
    let resolve = async |etag: &str| {
        let resolve = "resolve k --happened --payload slot-7 --reason seen --etag".split(' ');
        let arguments: Vec<&str> = resolve.chain([etag]).collect();
        server.run(&arguments).await
    };
    let before = etag().await;
    server
        .run(&["park", "k", "--token", &token])
        .await
        .expect(0);
    // Decided about another state than the one that is there now.
    let late = resolve(&before).await;
    assert!(
        late.expect(109).stderr.contains("ETAG_MISMATCH"),
        "{late:?}"
    );
    resolve(&etag().await).await.expect(0);
    let replay = server.run(&["reserve", "k", "--operation", "op"]).await;
    assert_eq!(replay.expect(0).row("payload"), "slot-7");
}

#[tokio::test]
async fn a_completed_record_is_expired_once_and_stays_closed() {
    let server = server().await;
    let token = reserved(&server, "k").await;
    let expire = ["expire", "k", "--reason", "voided", "--yes"];
    let running = server.run(&expire).await;
    assert!(
        running.expect(110).stderr.contains("NOT_EXPIRABLE"),
        "{running:?}"
    );

    server
        .run(&["complete", "k", "--token", &token])
        .await
        .expect(0);
    let expired = server.run(&expire).await;
    assert_eq!(expired.expect(0).row("state"), "EXPIRED");
    assert_eq!(expired.row("expired because"), "voided");
    let asked = server.run(&["reserve", "k", "--operation", "op"]).await;
    assert_eq!(asked.expect(104).row("verdict"), "EXPIRED");

    let rerun = ["expire", "k", "--reason", "again", "--allow-rerun", "--yes"];
    let reopened = server.run(&rerun).await;
    assert!(
        reopened.expect(0).stdout.contains("reopens in"),
        "{reopened:?}"
    );
    let soon = server.run(&["reserve", "k", "--operation", "op"]).await;
    assert_eq!(soon.expect(100).row("state"), "EXPIRED");
}

#[tokio::test]
async fn nothing_is_decided_unseen_or_without_a_reason() {
    let server = server().await;
    let token = reserved(&server, "k").await;
    server
        .run(&["complete", "k", "--token", &token])
        .await
        .expect(0);
    for arguments in [
        &["expire", "k", "--reason", "voided"][..],
        &["expire", "k", "--yes"],
        &["expire", "k", "--reason", " ", "--yes"],
        &["expire", "k", "--reason", "x", "--yes", "--etag", "e"],
        &["expire", "", "--reason", "x", "--yes"],
        &["expire", "*", "-n", "*", "--reason", "x", "--yes"],
        &["expire", "--reason", "x", "--yes"],
        &["resolve", "k", "--happened", "--reason", "x"],
        &["resolve", "k", "--reason", "x", "--yes"],
        &[
            "resolve",
            "k",
            "--happened",
            "--failed",
            "--reason",
            "x",
            "--yes",
        ],
        &[
            "resolve",
            "k",
            "--nothing-happened",
            "--payload",
            "p",
            "--reason",
            "x",
            "--yes",
        ],
    ] {
        let refused = server.run(arguments).await;
        refused.expect(2);
        assert_eq!(refused.stdout, "", "{arguments:?}");
    }
    let found = server.run(&["lookup", "k"]).await;
    assert_eq!(found.expect(0).row("state"), "COMPLETED");
}

#[tokio::test]
async fn bad_input_is_refused_before_anything_is_sent() {
    // Nothing listens there: had anything been sent, the exit would be another.
    let server = Server::prepare(PROGRAM, &[]);
    let long = "x".repeat(256);
    for arguments in [
        &["reserve", "", "--operation", "op"][..],
        &["reserve", "  ", "--operation", "op"],
        &["reserve", "a\nb", "--operation", "op"],
        &["reserve", &long, "--operation", "op"],
        &["reserve", "k", "--operation", "op", "-n", "A"],
        &["reserve", "k", "--operation", "op", "-e", ""],
        &["reserve", "k", "--operation", "op", "--lease", "0s"],
        &["reserve", "k", "--operation", "op", "--lease", "-1s"],
        &["reserve", "k", "--operation", "op", "--wait", "5"],
        &["reserve", "k", "--operation", "op", "--request-id", "00"],
        &["reserve", "k", "--operation", "op", "--attribute", "x"],
        &[
            "reserve",
            "k",
            "--operation",
            "op",
            "--attribute",
            "x=1",
            "--attribute",
            "x=2",
        ],
        &["complete", "k", "--token", "t", "--status", "maybe"],
        &["complete", "k", "--token", "t", "--retention", "0s"],
        &["complete", "k", "--token", "t", "--payload-file", "missing"],
        &["lookup", "k", "--endpoint", "ftp://x"],
        &["lookup", "k", "--token-file", "missing"],
        &["run", "--key", "", "--", "true"],
        &["run", "--key", "k"],
        &["run", "--key", "k", "--lease", "1ms", "--", "true"],
    ] {
        let refused = server.run(arguments).await;
        refused.expect(2);
        assert_ne!(refused.stderr, "", "{arguments:?}");
    }
    server.run(&["lookup", "k"]).await.expect(108);
}

#[tokio::test]
async fn the_servers_error_shows_its_reason_and_page() {
    let server = server().await;
    let missing = server.run(&["lookup", "nothing-here"]).await;
    assert!(
        missing.expect(106).stderr.starts_with("error: "),
        "{missing:?}"
    );
    assert!(missing.stderr.contains("reason: RECORD_NOT_FOUND"));
    assert!(missing.stderr.contains("docs/errors/RECORD_NOT_FOUND.md"));
    assert_eq!(missing.stdout, "");

    reserved(&server, "k").await;
    let forged = server.run(&["renew", "k", "--token", "forged"]).await;
    assert!(
        forged.expect(2).stderr.contains("TOKEN_INVALID"),
        "{forged:?}"
    );
}

#[tokio::test]
async fn a_repeated_request_gets_its_own_reservation_back() {
    let server = server().await;
    let reserve = [
        "reserve",
        "k",
        "--operation",
        "op",
        "--request-id",
        "000102030405060708090a0b0c0d0e0f",
    ];
    let first = server.run(&reserve).await;
    let again = server.run(&reserve).await;
    assert_eq!(first.expect(0).row("fence"), again.expect(0).row("fence"));
}

#[tokio::test]
async fn a_reader_that_has_left_is_no_error() {
    let server = server().await;
    let reserve = format!(
        "'{PROGRAM}' reserve k --operation op --color always | true; test ${{PIPESTATUS[0]}} = 0"
    );
    let mut shell = bare("bash".as_ref());
    shell.args(["-c", &reserve]);
    shell.env("ONCEGATE_ENDPOINT", server.endpoint());
    let ended = ended(&mut shell).await;
    assert_eq!(ended.expect(0).stderr, "");
}

#[tokio::test]
async fn colours_are_asked_for_or_not_there() {
    let server = server().await;
    let plain = server.run(&["reserve", "a", "--operation", "op"]).await;
    assert!(!plain.stdout.contains('\u{1b}'), "{plain:?}");
    let always = ["reserve", "b", "--operation", "op", "--color", "always"];
    let painted = server.run(&always).await;
    assert!(painted.stdout.contains("\u{1b}[32mGRANTED"), "{painted:?}");
}
