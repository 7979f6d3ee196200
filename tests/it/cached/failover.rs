//! Sentinels, a master and its replica: whichever of the two is the master, and however it came to be.

use oncegate::testkit::chaos_proxy::ChaosProxy;
use oncegate::testkit::redis::{TempRedis, TempSentinels};
use tokio::time::Instant;

use super::linked::{WITHIN, carry_out, documented_user, keys, percentiles_99};
use super::*;
use crate::rig::alone;

impl Replicas {
    /// What is at work is at work on each of them.
    async fn both_see_at_work(&self, key: &str) {
        for replica in [&self.here, &self.there] {
            let verdict = told(replica, key).await;
            assert!(
                matches!(verdict, ReserveVerdict::InProgress(_)),
                "{verdict:?}"
            );
        }
    }
}

// Field case G5. Field case G7.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_masters_costs_no_more_than_the_store_and_the_new_one_is_found() {
    let _alone = alone().await;
    let mut all = TempSentinels::start().await;
    let mut user = documented_user("swordfish");
    user.push("+role".to_owned());
    for server in &all.servers {
        carry_out(server, &user).await;
    }
    let url = all.url().replace("//", "//oncegate:swordfish@");
    let replicas = Replicas::linked(&url).await;
    granted(replicas.here.as_ref(), "at work").await;
    for dies in [false, true] {
        all.has_its_replica().await;
        let old = all.master().await;
        let case = format!("dies-{dies}");
        if dies {
            // What comes to the master now never comes to its replica.
            all.servers[1 - old].hang();
            replicas.complete("lost").await;
            let digest = key_of("lost").digest().to_string();
            let limit = Instant::now() + WITHIN;
            let has_it = |all: Vec<Vec<u8>>| all.iter().any(|key| key.ends_with(digest.as_bytes()));
            while !has_it(keys(&all.servers[old]).await) {
                assert!(Instant::now() < limit, "it does not come to the master");
                assert!(is_replay(&told(&replicas.there, "lost").await, "lost"));
            }
            granted(replicas.here.as_ref(), "claimed").await;
            all.servers[old].kill();
            all.servers[1 - old].go_on();
        } else {
            all.change().await;
        }
        let [with, without] = percentiles_99(&replicas, &case).await;
        assert!(with < without * 2, "{case}: {with:?} and {without:?}");
        replicas.both_see_at_work("at work").await;
        all.has_another_master(old).await;
        replicas.are_linked(&case).await;
        replicas.both_see_at_work("at work").await;
    }
    replicas.both_see_at_work("claimed").await;
    assert!(is_replay(&told(&replicas.there, "lost").await, "lost"));
}

// Field case G5.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_only_reads_now_is_left_for_the_one_in_its_place() {
    let (old, new) = (TempRedis::start().await, TempRedis::start().await);
    let proxy = ChaosProxy::in_front_of(old.address()).expect("a free port");
    let replicas = Replicas::linked(&format!("redis://{}", proxy.address())).await;
    // It goes on answering on the connections that it has.
    proxy.redirect(new.address());
    let port = new.address().port().to_string();
    let follow = ["REPLICAOF", "127.0.0.1", &port];
    old.ask::<()>(&follow).await.expect("it follows");
    replicas.are_linked("after").await;
}
