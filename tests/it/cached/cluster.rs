//! A Cluster: what is one record is one key, wherever it lies.

use futures::future::join_all;
use oncegate::testkit::redis::TempCluster;

use super::linked::{carry_out, documented_user, keys, written};
use super::*;

fn names(what: &str) -> Vec<String> {
    (0..40).map(|at| format!("{what}{at}")).collect()
}

impl Replicas {
    /// Completes them, and has the other replica told each by Redis.
    async fn all_come_from_redis(&self, names: &[String]) {
        join_all(names.iter().map(|name| self.complete(name))).await;
        for name in names {
            self.come_from_redis(name).await;
        }
    }
}

// Field case G9.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_lie_on_every_node_of_a_cluster_and_one_that_dies_takes_its_own_alone() {
    let mut cluster = TempCluster::start().await;
    let mut user = documented_user("swordfish");
    user.push("+cluster|slots".to_owned());
    for node in &cluster.nodes {
        carry_out(node, &user).await;
    }
    let url = cluster.url().replace("//", "//oncegate:swordfish@");
    let replicas = Replicas::linked(&url).await;
    replicas.all_come_from_redis(&names("first")).await;
    for node in &cluster.nodes {
        assert!(keys(node).await.len() > 1, "none of 40 lies there");
        // What scripts it has seen is forgotten.
        node.ask::<()>(&["SCRIPT", "FLUSH"]).await.expect("flushed");
    }
    replicas.all_come_from_redis(&names("second")).await;

    // The one that messages were heard through, as it is named first.
    cluster.nodes[0].kill();
    for name in names("first") {
        assert!(is_replay(&told(&replicas.there, &name).await, &name));
    }
    written(&replicas.here, &replicas.there).await;
    written(&replicas.there, &replicas.here).await;
    let on_another = keys(&cluster.nodes[1]).await;
    let lies_there = |name: &&String| {
        let digest = key_of(name).digest().to_string();
        on_another
            .iter()
            .any(|key| key.ends_with(digest.as_bytes()))
    };
    let all = names("second");
    for name in all.iter().filter(lies_there) {
        replicas.come_from_redis(name).await;
    }

    cluster.nodes[0].restart().await;
    cluster.is_whole().await;
    // Nothing outlives its process here, its users neither.
    carry_out(&cluster.nodes[0], &user).await;
    replicas.all_come_from_redis(&names("third")).await;
}
