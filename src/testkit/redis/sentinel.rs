//! A master, its replica, and Sentinels that watch them.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{SETTLED_WITHIN, TempRedis};

/// What the Sentinels call the master.
const MASTER: &str = "main";

/// All of them as processes.
#[derive(Debug)]
pub struct TempSentinels {
    /// At first the master and its replica.
    pub servers: [TempRedis; 2],
    sentinels: Vec<TempRedis>,
}

impl TempSentinels {
    /// Starts them, and returns when they know each other.
    pub async fn start() -> Self {
        let mut servers = [TempRedis::prepare(), TempRedis::prepare()];
        let port = servers[0].address.port().to_string();
        // A full copy at once, not when others may have come to share it.
        let quick = ["--repl-diskless-sync-delay", "0"];
        servers[0].launch(&quick).await;
        let follows = ["--replicaof", "127.0.0.1", &port];
        servers[1].launch(&[&quick[..], &follows].concat()).await;
        let told = format!(
            "sentinel monitor {MASTER} 127.0.0.1 {port} 2\n\
             sentinel down-after-milliseconds {MASTER} 2000\n\
             sentinel failover-timeout {MASTER} 3000\n"
        );
        let mut sentinels = Vec::new();
        for _ in 0..3 {
            let mut sentinel = TempRedis::prepare();
            sentinel.launch_sentinel(&told).await;
            sentinels.push(sentinel);
        }
        let all = Self { servers, sentinels };
        for sentinel in &all.sentinels {
            let knows = |master: HashMap<String, String>| {
                let of = |name: &str| master.get(name).map(String::as_str);
                of("num-other-sentinels") == Some("2") && of("num-slaves") == Some("1")
            };
            sentinel.until(&["SENTINEL", "MASTER", MASTER], knows).await;
        }
        all.has_its_replica().await;
        all
    }

    /// Where the Sentinels are.
    pub fn url(&self) -> String {
        let all = self.sentinels.iter().map(|one| one.address.to_string());
        format!(
            "redis+sentinel://{}/{MASTER}",
            all.collect::<Vec<_>>().join(",")
        )
    }

    /// Which of the servers the first Sentinel calls the master.
    pub async fn master(&self) -> usize {
        let question = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER];
        let told: Vec<String> = self.sentinels[0].ask(&question).await.expect("it is named");
        let is_it = |server: &TempRedis| told.get(1) == Some(&server.address.port().to_string());
        let found = self.servers.iter().position(is_it);
        found.expect("one of the two")
    }

    /// Has the Sentinels change the two while both run.
    pub async fn change(&self) {
        // Refused while they are at it, and for a while after.
        let question = ["SENTINEL", "FAILOVER", MASTER];
        self.sentinels[0].until(&question, |_: String| true).await;
    }

    /// Waits until another one than this is the master.
    pub async fn has_another_master(&self, than: usize) {
        let limit = Instant::now() + SETTLED_WITHIN;
        while self.master().await == than {
            assert!(Instant::now() < limit, "there is no other master");
            sleep(Duration::from_millis(50)).await;
        }
        let is_master = |told: String| told.contains("role:master");
        let now = &self.servers[self.master().await];
        now.until(&["INFO", "replication"], is_master).await;
    }

    /// Waits until the master has a replica that has all of it.
    pub async fn has_its_replica(&self) {
        let master = self.master().await;
        let online = |told: String| told.contains("state=online");
        self.servers[master]
            .until(&["INFO", "replication"], online)
            .await;
    }
}
