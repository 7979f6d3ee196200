//! A Cluster of three masters.

use super::TempRedis;
use crate::testkit::net::free_address;

/// All slots, a third for each.
const SLOTS: [[&str; 2]; 3] = [["0", "5460"], ["5461", "10922"], ["10923", "16383"]];

/// Its nodes as processes.
#[derive(Debug)]
pub struct TempCluster {
    /// In the order in which its URL names them.
    pub nodes: Vec<TempRedis>,
}

impl TempCluster {
    /// Starts the nodes, and returns when each knows all slots.
    pub async fn start() -> Self {
        let mut cluster = Self { nodes: Vec::new() };
        let first_bus = free_address().port().to_string();
        for (at, [from, to]) in SLOTS.into_iter().enumerate() {
            let mut node = TempRedis::prepare();
            let bus = if at == 0 {
                first_bus.clone()
            } else {
                free_address().port().to_string()
            };
            let arguments = [
                ["--cluster-enabled", "yes"],
                ["--cluster-port", &bus],
                ["--cluster-node-timeout", "2000"],
                // What the others hold is not gone with one of them.
                ["--cluster-require-full-coverage", "no"],
            ];
            node.launch(&arguments.concat()).await;
            let slots = ["CLUSTER", "ADDSLOTSRANGE", from, to];
            node.ask::<()>(&slots).await.expect("its slots");
            if let Some(first) = cluster.nodes.first() {
                let port = first.address().port().to_string();
                let meet = ["CLUSTER", "MEET", "127.0.0.1", &port, &first_bus];
                node.ask::<()>(&meet).await.expect("it meets the first");
            }
            cluster.nodes.push(node);
        }
        cluster.is_whole().await;
        cluster
    }

    /// Waits until every node knows that all slots are served.
    pub async fn is_whole(&self) {
        for node in &self.nodes {
            let whole = |told: String| {
                let parts = ["cluster_state:ok", "cluster_slots_ok:16384"];
                parts.iter().all(|part| told.contains(part))
            };
            node.until(&["CLUSTER", "INFO"], whole).await;
        }
    }

    /// Where its nodes are.
    pub fn url(&self) -> String {
        let all = self.nodes.iter().map(|node| node.address().to_string());
        format!("redis+cluster://{}", all.collect::<Vec<_>>().join(","))
    }
}
