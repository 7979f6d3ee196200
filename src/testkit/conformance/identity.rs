//! Four parts, byte for byte: what looks alike is not the same, and no tenant meets another.

use std::sync::Arc;

use super::{Command, Reserve, Scene, StateName, name_of, outcome};
use crate::domain::key::RecordKey;
use crate::testkit::scene::Held;

fn parse(parts: [&str; 4]) -> RecordKey {
    RecordKey::parse(parts[0], parts[1], parts[2], parts[3]).expect("a valid identity")
}

/// Grants and completes each identity with an outcome of its own, then checks that each one
/// replays its own.
async fn are_independent(scene: &Scene, identities: Vec<RecordKey>) {
    let mut all = Vec::new();
    for (number, key) in identities.into_iter().enumerate() {
        let request = Reserve {
            key,
            ..scene.ask("k")
        };
        let verdict = scene.reserve(&request).await;
        assert_eq!(name_of(&verdict), "GRANTED", "{:?}", request.key);
        let held = scene.hold(&request).await;
        scene
            .complete(&held, outcome(&format!("outcome {number}")))
            .await;
        all.push(held);
    }
    for (number, held) in all.iter().enumerate() {
        let request = Reserve {
            request_id: scene.new_id(),
            ..held.request.clone()
        };
        let super::ReserveVerdict::Replay(replay) = scene.reserve(&request).await else {
            panic!("must be REPLAY")
        };
        assert_eq!(replay.outcome, outcome(&format!("outcome {number}")));
        assert_eq!(replay.fence, held.token.fence);
    }
    let keys: Vec<_> = all.iter().map(|held| held.key.clone()).collect();
    let reading = scene
        .store
        .read(keys.clone())
        .await
        .expect("the store reads");
    for (key, record) in keys.iter().zip(reading.records) {
        assert_eq!(&record.expect("sound").expect("there").key, key);
    }
}

pub async fn no_separator_makes_two_identities_one(scene: Scene) {
    let identities = [
        ["a", "live", "b:c", "d"],
        ["a", "live", "b", "c:d"],
        ["a", "live", "b|c", "d"],
        ["a", "live", "b", "c|d"],
        ["a", "live", "", "bcd"],
        ["a", "live", "bcd", "a"],
        ["ab", "live", "c", "d"],
        ["a", "live", "{b}", "d"],
        ["a", "live", "b", "{d}"],
        ["a", "live", "b", "}d{"],
        ["a-live", "live", "b", "d"],
        ["a", "live-b", "b", "d"],
    ];
    are_independent(&scene, identities.map(parse).into()).await;
}

pub async fn tenants_are_independent(scene: Scene) {
    let identities = [
        ["shop", "live", "acme", "ordre-10422"],
        ["shop", "test", "acme", "ordre-10422"],
        ["shop", "live", "", "ordre-10422"],
        ["shop", "live", "globex", "ordre-10422"],
        ["billing", "live", "acme", "ordre-10422"],
    ];
    are_independent(&scene, identities.map(parse).into()).await;
}

pub async fn a_token_of_one_tenant_is_nothing_to_another(scene: Scene) {
    let one = scene.granted("k").await;
    let key = parse(["billing", "live", "acme", "k"]);
    let other = scene
        .hold(&Reserve {
            key: key.clone(),
            ..scene.ask("k")
        })
        .await;
    let secrets = scene.store.token_secrets().await.expect("a secret");
    let text = secrets.issue(&one.key.digest(), one.token);
    assert!(secrets.verify(&key.digest(), &text).is_err());
    // Even past the check of the MAC, fences of one store never name two reservations.
    let crossed = Held { key, ..one };
    assert!(!scene.complete(&crossed, outcome("x")).await.outcome_used);
    assert!(!scene.renew(&crossed, crossed.request.lease).await.held);
    assert!(!scene.release(&crossed).await.released);
    assert!(scene.complete(&other, outcome("done")).await.outcome_used);
}

pub async fn keys_are_compared_byte_for_byte(scene: Scene) {
    let keys = [
        "faktura-\u{e5}",
        "faktura-a\u{30a}",
        "Faktura-\u{e5}",
        "faktura-\u{c5}",
        "faktura-\u{e5} ",
        " faktura-\u{e5}",
        "faktura-å\u{200b}",
        "stra\u{df}e",
        "strasse",
        "\u{feff}k",
        "k",
        "K",
        "\u{212a}",
        "订单-1",
        "🚢",
        "\u{200f}k",
        "0",
        "00",
        "0.0",
        "-0",
    ];
    let identities = keys.map(|key| parse(["shop", "live", "acme", key]));
    are_independent(&scene, identities.into()).await;
    let accounts = ["\u{e5}", "a\u{30a}", "Å", "å ", "a", "A"];
    let identities = accounts.map(|account| parse(["shop", "live", account, "same"]));
    are_independent(&scene, identities.into()).await;
}

pub async fn the_longest_identity_works_like_any_other(scene: Scene) {
    let (name, long) = ("n".repeat(63), "Ω".repeat(127));
    let odd: String = (0..85)
        .map(|n| char::from_u32(0x4e00 + n).expect("a character"))
        .collect();
    let one = parse([&name, &name, &odd, &odd]);
    let other = parse([&name, &name, &odd, &long]);
    are_independent(&scene, vec![one, other]).await;
}

pub async fn what_reads_like_an_internal_mark_is_a_key_like_any_other(scene: Scene) {
    let keys = [
        "oncegate",
        "__probe__",
        "og_",
        "oncegate/record/v1",
        "%",
        "_",
        "' OR 1=1 --",
        "$1",
    ];
    let identities = keys.map(|key| parse(["shop", "live", "acme", key]));
    are_independent(&scene, identities.into()).await;
}

pub async fn a_lost_race_leaves_every_other_key_alone(scene: Scene) {
    scene.granted("k").await;
    let others: Vec<_> = (0..10).map(|number| format!("k-{number}")).collect();
    for other in &others {
        scene.granted(other).await;
    }
    for _ in 0..3 {
        let request = scene.ask("k");
        scene.apply(Command::Reserve(Arc::new(request))).await;
    }
    for other in &others {
        assert_eq!(scene.state(other).await, Some(StateName::Running));
    }
}
