//! A Redis that does not let everybody in: passwords, and a user that may do little.

use std::fs;

use oncegate::testkit::certificates::Authority;
use oncegate::testkit::net::{free_address, http_get};
use oncegate::testkit::process::{Server, bare, ended};
use oncegate::testkit::redis::TempRedis;
use tokio::time::Instant;

use super::encrypted::Encrypted;
use super::linked::{WITHIN, carry_out, documented_user};
use super::*;
use crate::cli::PROGRAM;

const PASSWORD: &str = "swordfish";

/// Where a Redis is for the documented user.
fn url_of_user(redis: &TempRedis) -> String {
    format!("redis://oncegate:{PASSWORD}@{}", redis.address())
}

impl Replicas {
    /// Puts something there that nobody sealed, and has the other replica find it.
    async fn forge(&self, redis: &TempRedis, key: &str) {
        let secrets = self.here.token_secrets().await.expect("it has secrets");
        let name = format!(
            "oncegate:{:016x}:1:{}",
            secrets.name(),
            key_of(key).digest()
        );
        redis.ask::<()>(&["SET", &name, "x"]).await.expect("set");
        assert!(is_replay(&told(&self.there, key).await, key));
    }

    pub(super) fn errors(&self) -> u64 {
        count(&self.here, "error") + count(&self.there, "error")
    }
}

/// How often this Redis denied somebody something.
async fn denied(redis: &TempRedis) -> usize {
    let log: Vec<::redis::Value> = redis.ask(&["ACL", "LOG"]).await.expect("it has a log");
    log.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_documented_user_is_enough_and_whatever_is_taken_from_it_is_noticed() {
    let redis = TempRedis::start().await;
    let documented = documented_user(PASSWORD);
    carry_out(&redis, &documented).await;
    let replicas = Replicas::linked(&url_of_user(&redis)).await;
    let limit = Instant::now() + WITHIN;
    while count(&replicas.there, "forged") == 0 {
        assert!(Instant::now() < limit, "what is forged is not seen");
        replicas.forge(&redis, "probe").await;
    }
    replicas.written_there().await;
    assert_eq!(denied(&redis).await, 0);
    assert!(replicas.here.counts().redis_is_up() && replicas.there.counts().redis_is_up());
    drop(replicas);

    let given = |part: &&String| part.starts_with(['+', '~', '&']);
    for taken in documented.iter().filter(given) {
        redis
            .ask::<()>(&["ACL", "LOG", "RESET"])
            .await
            .expect("reset");
        redis
            .ask::<()>(&["ACL", "DELUSER", "oncegate"])
            .await
            .expect("gone");
        let less: Vec<_> = documented
            .iter()
            .filter(|part| *part != taken)
            .cloned()
            .collect();
        carry_out(&redis, &less).await;
        let replicas = Replicas::sharing(&url_of_user(&redis)).await;
        let limit = Instant::now() + WITHIN;
        for round in 0.. {
            let key = format!("k{round}");
            replicas.complete(&key).await;
            assert!(
                is_replay(&told(&replicas.there, &key).await, &key),
                "{taken}"
            );
            let verdict = told_another(&replicas.there, &key).await;
            assert!(
                matches!(verdict, ReserveVerdict::Mismatch(_)),
                "{taken}: {verdict:?}"
            );
            replicas.forge(&redis, &key).await;
            if denied(&redis).await > 0 && replicas.errors() > 0 {
                break;
            }
            assert!(
                Instant::now() < limit,
                "nobody notices that {taken} is not there"
            );
        }
    }
}

/// All that a server says until Redis is up, or until it says this. It takes calls in both cases.
async fn said(settings: &[(&str, &str)], wanted: Option<&str>) -> String {
    let server = Server::prepare(PROGRAM, settings);
    let log = server.folder().join("log");
    let file = fs::File::create(&log).expect("a file");
    let _process = server.serving().stderr(file).spawn().expect("it starts");
    let up = format!("oncegate_redis_up {}\n", u8::from(wanted.is_none()));
    let limit = Instant::now() + WITHIN;
    loop {
        let said = fs::read_to_string(&log).expect("it is there");
        let metrics = http_get(server.http_address(), "/metrics").await;
        let is_so = metrics.is_ok_and(|(_, text)| text.contains(&up))
            && wanted.is_none_or(|wanted| said.contains(wanted));
        if is_so && server.is_ready().await {
            let asked = server.run(&["reserve", "k", "--operation", "x"]).await;
            asked.expect(0);
            return said;
        }
        assert!(Instant::now() < limit, "not {up} nor {wanted:?}: {said}");
        sleep(Duration::from_millis(20)).await;
    }
}

// Field case G2.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_of_no_use_is_shown_and_said_and_the_gate_serves() {
    let authority = Authority::new("ours");
    let Encrypted { redis, address } = Encrypted::start(&authority, &[]).await;
    let authorities = redis.folder().join("authorities").display().to_string();
    fs::write(&authorities, authority.pem()).expect("it is written");
    carry_out(&redis, &documented_user(PASSWORD)).await;
    let guarded = TempRedis::start().await;
    let guard = ["CONFIG", "SET", "requirepass", PASSWORD];
    guarded.ask::<()>(&guard).await.expect("it is guarded");
    let by_password = format!("redis://:{PASSWORD}@{}", guarded.address());
    let nowhere = format!("redis://{}", free_address());
    let wrong = url_of_user(&redis).replace(PASSWORD, "starfish");
    let trusted = format!("rediss://oncegate:{PASSWORD}@{address}");
    let untrusted = ("ONCEGATE_REDIS_CA_FILE", "");
    let trusting = ("ONCEGATE_REDIS_CA_FILE", &*authorities);
    for (url, authorities, wanted) in [
        (url_of_user(&redis), untrusted, None),
        (by_password, untrusted, None),
        (guarded.url(), untrusted, Some("NOAUTH")),
        (trusted.clone(), trusting, None),
        (trusted, untrusted, Some("certificate")),
        (wrong, untrusted, Some("authentication failed")),
        (
            redis.url().replace("redis:", "rediss:"),
            untrusted,
            Some("timed out"),
        ),
        (nowhere, untrusted, Some("refused")),
    ] {
        let settings = [("ONCEGATE_REDIS_URL", &*url), authorities];
        let log = said(&settings, wanted).await;
        assert!(!log.contains("fish"), "{log}");
        assert_eq!(log.contains("Redis"), wanted.is_some(), "{log}");
    }
}

// Field case G2.
#[tokio::test]
async fn a_redis_that_cannot_be_meant_is_refused_at_the_start() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let empty = folder.path().join("empty").display().to_string();
    fs::write(&empty, "").expect("it is written");
    for (url, file, said) in [
        ("redis://a:1,b:2", "", "cache.redis_url: "),
        ("rediss://h", "/nothing", "cache.redis_ca_file: /nothing: "),
        ("rediss://h", &empty, "there is no certificate"),
        ("redis://h", &empty, "with TLS alone"),
    ] {
        let mut command = bare(PROGRAM.as_ref());
        command.arg("serve").current_dir(folder.path());
        command
            .env("ONCEGATE_REDIS_URL", url)
            .env("ONCEGATE_REDIS_CA_FILE", file);
        let told = ended(&mut command).await;
        assert!(
            told.expect(2).stderr.contains(said),
            "{url} {file}: {told:?}"
        );
    }
}
