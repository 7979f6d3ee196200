//! Values in Redis that nobody of this deployment wrote: they are told to nobody and stand in nobody's
//! way.

use ::redis::{AsyncCommands, cmd};
use oncegate::domain::limits;
use oncegate::testkit::redis::TempRedis;
use tokio::time::Instant;

use super::linked::{WITHIN, keys, name_of};
use super::*;

/// A later stamp than any record's.
const LATEST: [u8; 40] = [b'9'; 40];

/// Whether a value goes by itself.
async fn goes(redis: &TempRedis, name: &[u8]) -> bool {
    let mut connection = redis.connect().await.expect("it answers");
    let left: i64 = connection.pttl(name).await.expect("it answers");
    left > 0
}

/// What nobody sealed for this key and this state of its record, made of what somebody did.
fn forgeries(genuine: &[u8], of_another: Vec<u8>) -> Vec<Vec<u8>> {
    let later = |rest: &[u8]| [&LATEST[..], rest].concat();
    let flipped = |at: usize| {
        let mut value = genuine.to_vec();
        value[at] ^= 1;
        value
    };
    let mut forgeries = vec![
        b"z".to_vec(),
        b"garbage".repeat(20),
        vec![0xff; 100],
        of_another,
        later(b""),
        later(b"garbage"),
        later(&genuine[40..]),
        genuine[..40].to_vec(),
        genuine[..genuine.len() - 1].to_vec(),
    ];
    forgeries.extend([39, 40, 50, 80, genuine.len() - 1].map(flipped));
    forgeries
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_this_deployment_did_not_write_is_an_alarm_and_stands_in_nobodys_way() {
    let redis = TempRedis::start().await;
    let replicas = Replicas::linked(&redis.url()).await;
    replicas.complete("other").await;
    replicas.come_from_redis("other").await;
    replicas.written_there().await;
    let mut connection = redis.connect().await.expect("it answers");
    let names = keys(&redis).await;
    for name in &names {
        let text = String::from_utf8_lossy(name);
        assert!(!text.contains("probe") && !text.contains("shop"), "{text}");
    }
    let name = name_of("probe", &names);
    let genuine: Vec<u8> = connection.get(&name).await.expect("it is there");
    let other = connection.get(name_of("other", &names)).await;
    let forgeries = forgeries(&genuine, other.expect("it is there"));
    let mut put: Vec<_> = forgeries
        .iter()
        .map(|forged| cmd("SET").arg(&name).arg(forged).clone())
        .collect();
    put.push(cmd("LPUSH").arg(&name).arg("of another type").clone());
    for (at, put) in put.into_iter().enumerate() {
        let limit = Instant::now() + WITHIN;
        let before = count(&replicas.there, "forged");
        while count(&replicas.there, "forged") == before {
            assert!(Instant::now() < limit, "{at}: nobody sees it");
            connection.del::<_, ()>(&name).await.expect("gone");
            // For ever: nobody sets a limit to it.
            put.query_async::<()>(&mut connection).await.expect("put");
            assert!(is_replay(&told(&replicas.there, "probe").await, "probe"));
        }
        replicas.come_from_redis("probe").await;
        assert!(goes(&redis, &name).await, "{at}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_genuine_value_that_is_kept_for_ever_is_told_no_longer_than_its_bound() {
    let redis = TempRedis::start().await;
    let replicas = Replicas::linked(&redis.url()).await;
    let mut connection = redis.connect().await.expect("it answers");
    let name = name_of("probe", &keys(&redis).await);
    connection.persist::<_, ()>(&name).await.expect("kept");
    replicas.clock.advance(limits::CACHE_BOUND);
    let before = count(&replicas.there, "shared_hit");
    assert!(is_replay(&told(&replicas.there, "probe").await, "probe"));
    assert_eq!(count(&replicas.there, "shared_hit"), before);
    replicas.come_from_redis("probe").await;
    assert!(goes(&redis, &name).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_of_another_version_is_a_miss_and_no_alarm_and_stays_as_it_is() {
    let redis = TempRedis::start().await;
    let replicas = Replicas::linked(&redis.url()).await;
    let name = name_of("probe", &keys(&redis).await);
    let name = String::from_utf8(name).expect("it is text");
    let later = name.replace(":1:", ":2:");
    assert_ne!(later, name);
    let mut connection = redis.connect().await.expect("it answers");
    // As if this version had never written, and a later one had.
    cmd("RENAME")
        .arg(&name)
        .arg(&later)
        .query_async::<()>(&mut connection)
        .await
        .expect("renamed");
    let written: Vec<u8> = connection.get(&later).await.expect("it is there");
    assert!(is_replay(&told(&replicas.there, "probe").await, "probe"));
    replicas.come_from_redis("probe").await;
    replicas.written_there().await;
    let now: Vec<u8> = connection.get(&later).await.expect("it is there");
    assert!(now == written);
    assert_eq!(count(&replicas.there, "forged"), 0);
}
