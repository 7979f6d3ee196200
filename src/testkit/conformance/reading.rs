//! Reading confers nothing and finds what was asked for, in the order of the question.

use super::{Scene, StateName, outcome, secs};
use crate::domain::namespace::Namespace;
use crate::domain::policy::EffectClass;
use crate::testkit::scene::key_of;

pub async fn records_are_answered_in_the_order_of_the_keys(scene: Scene) {
    for key in ["a", "b", "c"] {
        scene.completed(key).await;
    }
    scene.granted("d").await;
    let asked = ["d", "missing", "a", "c", "missing-too", "a"];
    let reading = scene
        .store
        .read(asked.map(key_of).into())
        .await
        .expect("the store reads");
    let found: Vec<_> = reading
        .records
        .into_iter()
        .map(|record| {
            record
                .expect("sound")
                .map(|record| record.key.key().to_owned())
        })
        .collect();
    let want = [Some("d"), None, Some("a"), Some("c"), None, Some("a")];
    assert_eq!(found, want.map(|key| key.map(str::to_owned)));
}

pub async fn a_reading_carries_the_databases_clock(scene: Scene) {
    for _ in 0..2 {
        let reading = scene.store.read(Vec::new()).await.expect("the store reads");
        assert_eq!(reading.now, scene.clock.now());
        assert!(reading.records.is_empty());
        scene.later(secs(5));
    }
}

pub async fn a_reading_changes_nothing(scene: Scene) {
    scene.completed("k").await;
    let first = scene.record("k").await;
    scene.later(secs(400 * 86_400));
    assert_eq!(scene.record("k").await, first);
    assert_eq!(scene.find("missing").await, None);
    assert_eq!(scene.says("missing").await, "GRANTED");
}

pub async fn a_record_comes_back_whole(scene: Scene) {
    let mut request = scene.ask("k");
    "0af7651916cd43dd8448eb211c80319c".clone_into(&mut request.trace_id);
    request
        .attributes
        .insert("order".to_owned(), "æøå 订单".to_owned());
    request.attributes.insert("empty".to_owned(), String::new());
    let first = scene.hold(&request).await;
    scene.lease_out();
    let second = scene.hold(&scene.ask("k")).await;
    let record = scene.record("k").await;
    assert_eq!(
        (record.fence, record.generation),
        (second.token.fence, first.token.generation)
    );
    assert_eq!(record.attributes, request.attributes);
    assert_eq!(record.fingerprint, request.fingerprint);
    assert_eq!(record.terms, request.terms);
    assert_eq!(record.operation, request.operation);
    assert_eq!(record.attempts[0].trace_id, request.trace_id);
    assert_eq!(
        record.reserved_at.since(record.first_reserved_at),
        request.lease
    );
    assert_eq!(record.state_name(), StateName::Recovering);
}

pub async fn what_is_acknowledged_is_read_at_once(scene: Scene) {
    for number in 0..20 {
        let key = format!("k-{number}");
        let held = scene.granted(&key).await;
        scene.complete(&held, outcome("done")).await;
        assert_eq!(scene.state(&key).await, Some(StateName::Completed));
    }
}

pub async fn a_namespace_is_stored_and_found_again(scene: Scene) {
    assert_eq!(
        scene.store.namespace("shop").await.expect("it is read"),
        None
    );
    let mut asked = Namespace::with_defaults("shop");
    asked.environments[0].policy.terms.effect_class = EffectClass::Keyed;
    asked.environments[0].policy.terms.keyed_window = secs(3600);
    asked.environments[1].signal_thresholds.duplicate_ratio_high = 0.5;
    let stored = scene
        .store
        .put_namespace(asked.clone())
        .await
        .expect("it is written");
    let want = Namespace {
        version: 1,
        created_at: scene.clock.now(),
        ..asked
    };
    assert_eq!(stored, Some(want.clone()));
    assert_eq!(
        scene.store.namespace("shop").await.expect("it is read"),
        Some(want)
    );
}

pub async fn a_namespace_is_written_only_over_the_version_that_was_seen(scene: Scene) {
    let first = Namespace::with_defaults("shop");
    let put = |namespace: Namespace| scene.store.put_namespace(namespace);
    let one = put(first.clone())
        .await
        .expect("it is written")
        .expect("it is new");
    assert_eq!(put(first).await.expect("it is judged"), None);
    scene.later(secs(9));
    let two = put(one.clone())
        .await
        .expect("it is written")
        .expect("the version was seen");
    assert_eq!((two.version, two.created_at), (2, one.created_at));
    assert_eq!(put(one).await.expect("it is judged"), None);
    let missing = Namespace {
        version: 3,
        ..Namespace::with_defaults("other")
    };
    assert_eq!(put(missing).await.expect("it is judged"), None);
    assert_eq!(
        scene.store.namespace("other").await.expect("it is read"),
        None
    );
}

pub async fn of_two_writers_of_a_namespace_one_wins(scene: Scene) {
    let calls = (0..10).map(|_| {
        let store = std::sync::Arc::clone(&scene.store);
        tokio::spawn(async move { store.put_namespace(Namespace::with_defaults("shop")).await })
    });
    let mut written = 0;
    for answer in futures::future::join_all(calls).await {
        let answer = answer.expect("no task panics").expect("it is judged");
        written += u32::from(answer.is_some());
    }
    assert_eq!(written, 1);
}

pub async fn namespaces_are_listed_by_name_in_pages(scene: Scene) {
    let names = ["b", "a-1", "a", "z", "a-0", "10", "9"];
    for name in names {
        let put = scene
            .store
            .put_namespace(Namespace::with_defaults(name))
            .await;
        assert!(put.expect("it is written").is_some());
    }
    let mut listed = Vec::new();
    let mut after = String::new();
    loop {
        let page = scene
            .store
            .namespaces(&after, 3)
            .await
            .expect("they are read");
        let Some(last) = page.last() else { break };
        assert!(page.len() <= 3);
        after.clone_from(&last.name);
        listed.extend(page.into_iter().map(|namespace| namespace.name));
    }
    assert_eq!(listed, ["10", "9", "a", "a-0", "a-1", "b", "z"]);
}

pub async fn a_ready_store_says_what_it_is(scene: Scene) {
    let health = scene.store.check().await.expect("it is ready");
    assert!(!health.engine.is_empty());
    assert!(!health.engine_version.is_empty());
    assert_eq!(health.now, scene.clock.now());
}
