//! A Redis that is spoken to over TLS, with a certificate that this machine does not trust by itself.

use std::fs;

use oncegate::store::cached::{BadTarget, Target};
use oncegate::testkit::certificates::Authority;
use oncegate::testkit::net::free_address;
use oncegate::testkit::redis::TempRedis;
use tokio::time::Instant;

use super::linked::WITHIN;
use super::*;

/// A Redis that speaks TLS on a second port.
pub(super) struct Encrypted {
    pub(super) redis: TempRedis,
    pub(super) address: String,
}

/// What it is told of its files.
const FILES: [[&str; 2]; 4] = [
    ["tls-cert-file", "cert"],
    ["tls-key-file", "key"],
    ["tls-ca-cert-file", "authority"],
    ["tls-auth-clients", "no"],
];

impl Encrypted {
    /// Starts it with a certificate of that authority, and with these settings more.
    pub(super) async fn start(authority: &Authority, more: &[[&str; 2]]) -> Self {
        let (mut own, port) = Self::prepare(authority);
        let settings = [&FILES[..], &[["tls-port", &port]], more].concat();
        let arguments = settings
            .into_iter()
            .map(|[name, value]| [format!("--{name}"), value.to_owned()]);
        let arguments: Vec<_> = arguments.flatten().collect();
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        own.redis.launch(&arguments).await;
        own
    }

    /// Starts it as the Sentinel of another one.
    async fn start_sentinel(authority: &Authority, master: &Self) -> Self {
        let (mut own, port) = Self::prepare(authority);
        let place = master.address.replace(':', " ");
        let monitor = format!("main {place} 1");
        let settings = [
            ["tls-port", &port],
            ["tls-replication", "yes"],
            ["sentinel monitor", &monitor],
        ];
        let settings = [&FILES[..], &settings].concat();
        let told = settings.into_iter().map(|line| line.join(" ") + "\n");
        own.redis.launch_sentinel(&told.collect::<String>()).await;
        own
    }

    fn prepare(authority: &Authority) -> (Self, String) {
        let (redis, address) = (TempRedis::prepare(), free_address());
        let signed = authority.sign("127.0.0.1");
        let files = [
            ("cert", signed.cert),
            ("key", signed.key),
            ("authority", authority.pem()),
        ];
        for (name, text) in files {
            fs::write(redis.folder().join(name), text).expect("it is written");
        }
        let port = address.port().to_string();
        let address = address.to_string();
        (Self { redis, address }, port)
    }
}

fn target(url: &str) -> Target {
    url.parse().expect("a Redis URL")
}

fn trusting(url: &str, authority: &Authority) -> Target {
    let trusting = target(url).trusting(authority.pem().into());
    trusting.expect("a certificate")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_tls_a_redis_is_trusted_if_its_authority_is() {
    let authority = Authority::new("ours");
    let Encrypted {
        redis: _redis,
        address,
    } = Encrypted::start(&authority, &[]).await;
    let url = format!("rediss://{address}");
    let replicas = Replicas::on_target(trusting(&url, &authority)).await;
    replicas.are_linked("probe").await;
    let another = trusting(&url, &Authority::new("ours"));
    let [no_other, plain] = [&*url, &url.replace("rediss", "redis")].map(target);
    for bad in [no_other, another, plain] {
        let replicas = Replicas::on_target(bad).await;
        replicas.complete("k").await;
        let limit = Instant::now() + WITHIN;
        while replicas.errors() == 0 {
            assert!(Instant::now() < limit, "nobody notices");
            assert!(is_replay(&told(&replicas.there, "k").await, "k"));
        }
        assert!(!replicas.here.counts().redis_is_up());
        assert_eq!(count(&replicas.there, "shared_hit"), 0);
    }
}

#[test]
fn what_is_no_authority_is_refused() {
    let trusting = |url: &str, text: &str| {
        let target: Target = url.parse().expect("a Redis URL");
        target
            .trusting(text.into())
            .map(drop)
            .map_err(|bad: BadTarget| bad.to_string())
    };
    let good = Authority::new("ours").pem();
    let damaged = good.replacen("MII", "", 1);
    for (url, text, said) in [
        ("rediss://h", &*good, None),
        ("rediss+sentinel://h/main", &good, None),
        ("rediss+cluster://h", &good, None),
        ("redis://h", &good, Some("rediss://")),
        ("rediss://h", "", Some("no certificate")),
        ("rediss://h", "secret", Some("no certificate")),
        ("rediss://h", &damaged, Some("damaged")),
    ] {
        match (trusting(url, text), said) {
            (Ok(()), None) => {}
            (Err(told), Some(said)) => assert!(told.contains(said), "{told}"),
            (told, said) => panic!("{url}: {told:?}, not {said:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_holds_for_what_sentinels_name_and_for_the_nodes_of_a_cluster() {
    let authority = Authority::new("ours");
    let master = Encrypted::start(&authority, &[]).await;
    let sentinel = Encrypted::start_sentinel(&authority, &master).await;
    let bus = free_address().port().to_string();
    let cluster = [
        ["cluster-enabled", "yes"],
        ["cluster-announce-ip", "127.0.0.1"],
        ["cluster-port", &bus],
        ["tls-cluster", "yes"],
    ];
    let node = Encrypted::start(&authority, &cluster).await;
    let slots = ["CLUSTER", "ADDSLOTSRANGE", "0", "16383"];
    node.redis.ask::<()>(&slots).await.expect("its slots");
    for url in [
        format!("rediss+sentinel://{}/main", sentinel.address),
        format!("rediss+cluster://{}", node.address),
    ] {
        let replicas = Replicas::on_target(trusting(&url, &authority)).await;
        replicas.are_linked("probe").await;
        let replicas = Replicas::on_target(trusting(&url, &Authority::new("ours"))).await;
        replicas.complete("k").await;
        let limit = Instant::now() + WITHIN;
        while replicas.errors() == 0 {
            assert!(Instant::now() < limit, "{url}: nobody notices");
            assert!(is_replay(&told(&replicas.there, "k").await, "k"));
        }
        assert!(!replicas.here.counts().redis_is_up(), "{url}");
    }
}
