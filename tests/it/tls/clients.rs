//! The command line against servers that it trusts, does not trust, or takes for what they are not.

use super::*;

/// A client command against this server.
async fn run(stage: &Stage, endpoint: &str, authority: &Authority, arguments: &[&str]) -> Ended {
    let ca = stage.folder.path().join("ca.pem");
    fs::write(&ca, authority.pem()).expect("written");
    let mut command = bare(PROGRAM.as_ref());
    command
        .args(arguments)
        .env("ONCEGATE_ENDPOINT", endpoint)
        .env("ONCEGATE_CA_FILE", ca)
        .current_dir(stage.folder.path());
    ended(&mut command).await
}

#[tokio::test]
async fn a_client_trusts_the_authority_that_it_is_told() {
    let stage = Stage::new().await;
    let endpoint = format!("https://{}", stage.server.grpc_address());
    let reserve = ["reserve", "k", "--operation", "slot.claim"];
    let told = run(&stage, &endpoint, &stage.authority, &reserve).await;
    assert!(told.expect(0).stdout.contains("GRANTED"), "{told:?}");
    run(&stage, &endpoint, &stage.authority, &["doctor"])
        .await
        .expect(0);
}

#[tokio::test]
async fn a_client_says_why_it_does_not_trust_and_what_to_do() {
    let stage = Stage::new().await;
    let plain = TestServer::start(Arc::new(MemoryStore::new(Clock::Database))).await;
    let stranger = Authority::new("stranger");
    let lookup = ["lookup", "k"];
    let port = stage.server.grpc_address().port();
    let secure = format!("https://{}", stage.server.grpc_address());
    for (endpoint, authority, problem, advice) in [
        (
            secure.clone(),
            &stranger,
            "no authority that is trusted",
            "--ca-file",
        ),
        (
            format!("https://localhost:{port}"),
            &stage.authority,
            "not valid for name",
            "a name that stands in it",
        ),
        (
            format!("https://{}", plain.grpc_address()),
            &stage.authority,
            "does not speak TLS",
            "http://",
        ),
    ] {
        let told = run(&stage, &endpoint, authority, &lookup).await;
        let said = &told.expect(108).stderr;
        assert!(said.contains(problem) && said.contains(advice), "{said}");
    }
    let open = format!("http://{}", stage.server.grpc_address());
    for (endpoint, problem, advice) in [
        (&secure, "no secure connection", "--ca-file"),
        (&open, "ready", "write https://"),
    ] {
        let doctor = run(&stage, endpoint, &stranger, &["doctor"]).await;
        let said = &doctor.expect(1).stdout;
        assert!(said.contains(problem) && said.contains(advice), "{said}");
    }
}

#[tokio::test]
async fn an_expired_certificate_and_a_file_without_one_are_named() {
    let stage = Stage::new().await;
    let endpoint = format!("https://{}", stage.server.grpc_address());
    let expired = stage.authority.sign_expired(HOST);
    expired.write(stage.folder.path());
    let limit = Instant::now() + PATIENCE;
    let said = loop {
        let told = run(&stage, &endpoint, &stage.authority, &["lookup", "k"]).await;
        if told.stderr.contains("no secure connection") {
            break told.expect(108).stderr.clone();
        }
        assert!(Instant::now() < limit, "{told:?}");
    };
    assert!(said.contains("expired"), "{said}");
    let mut command = bare(PROGRAM.as_ref());
    let empty = stage.folder.path().join("empty.pem");
    fs::write(&empty, "").expect("written");
    let told = ended(
        command
            .args(["lookup", "k", "--endpoint", &endpoint, "--ca-file"])
            .arg(empty),
    );
    let told = told.await;
    let said = &told.expect(2).stderr;
    assert!(said.contains("holds no certificate"), "{said}");
}
