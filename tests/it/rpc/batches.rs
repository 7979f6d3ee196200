//! Batches: each item on its own, in order, and an answer that always fits.

use oncegate::domain::limits;
use oncegate::proto::v1 as pb;
use pb::batch_complete_result::Result as Done;
use pb::batch_reserve_result::Result as Item;
use pb::reserve_response::Verdict;
use prost::Message;

use super::*;

const MIB: usize = 1024 * 1024;

fn of(requests: Vec<pb::ReserveRequest>) -> pb::BatchReserveRequest {
    pb::BatchReserveRequest { requests }
}

async fn batch(stage: &Stage, requests: Vec<pb::ReserveRequest>) -> Vec<Item> {
    let answered = answer(stage.server.gate().batch_reserve(of(requests)).await);
    assert!(answered.encoded_len() < limits::BATCH_ANSWER_BYTES_MAX);
    let results = answered.results.into_iter();
    results.map(|item| item.result.expect("set")).collect()
}

#[tokio::test]
async fn a_batch_has_one_to_a_thousand_items() {
    let stage = Stage::new().await;
    let items = |count| {
        (0..count)
            .map(|n| reserve(&format!("k{n}")))
            .collect::<Vec<_>>()
    };
    for count in [0, 1001] {
        let told = refusal(stage.server.gate().batch_reserve(of(items(count))).await);
        assert_eq!(
            (told.code, told.reason.as_str()),
            (Code::InvalidArgument, "INVALID_FIELD")
        );
        assert_eq!(told.fields[0].0, "requests");
        assert!(
            told.message.contains("1..=1000 items") && told.message.contains(&count.to_string())
        );
        let requests = (0..count).map(|_| complete("k", "x", b"")).collect();
        let request = pb::BatchCompleteRequest { requests };
        let told = refusal(stage.server.gate().batch_complete(request).await);
        assert_eq!(
            (told.code, told.fields[0].0.as_str()),
            (Code::InvalidArgument, "requests")
        );
    }
    for count in [1, 1000] {
        let answered = batch(&stage, items(count)).await;
        assert_eq!(answered.len(), count);
    }
}

#[tokio::test]
async fn a_bad_item_fails_alone_and_the_second_of_a_key_is_judged_after_the_first() {
    let stage = Stage::new().await;
    let bad = pb::ReserveRequest {
        operation: String::new(),
        ..reserve("bad")
    };
    let waits = pb::ReserveRequest {
        wait: Some(seconds(3600)),
        ..reserve("a")
    };
    let mut answered = batch(&stage, vec![reserve("a"), bad, waits, reserve("b")]).await;
    let Item::Response(last) = answered.remove(3) else {
        panic!("b is granted")
    };
    assert!(matches!(last.verdict, Some(Verdict::Granted(_))));
    let Item::Response(second) = answered.remove(2) else {
        panic!("a is held")
    };
    assert!(
        matches!(second.verdict, Some(Verdict::InProgress(_))),
        "wait is taken as zero"
    );
    let Item::Error(error) = answered.remove(1) else {
        panic!("bad is refused")
    };
    assert_eq!((error.code, error.reason.as_str()), (3, "INVALID_FIELD"));
    assert_eq!(
        (error.field.as_str(), error.retry_after),
        ("operation", None)
    );
    assert!(error.message.contains("1..=127"));
    let Item::Response(first) = answered.remove(0) else {
        panic!("a is granted")
    };
    let token = granted(first.verdict.expect("a verdict")).token;

    let requests = vec![
        complete("a", &token, b"x"),
        complete("a", "forged", b"x"),
        complete("a", &token, b"x"),
        complete("a", &token, b"y"),
    ];
    let request = pb::BatchCompleteRequest { requests };
    let answered = answer(stage.server.gate().batch_complete(request).await);
    let told: Vec<_> = answered
        .results
        .into_iter()
        .map(|item| match item.result.expect("set") {
            Done::Response(done) => done.verdict().as_str_name().to_owned(),
            Done::Error(error) => error.reason,
        })
        .collect();
    assert_eq!(
        told,
        [
            "VERDICT_RECORDED",
            "TOKEN_INVALID",
            "VERDICT_ALREADY_RECORDED",
            "VERDICT_DIVERGENT"
        ]
    );
}

async fn large(stage: &Stage, name: &str) -> String {
    let token = stage.grant(name).await.token;
    stage.complete(name, &token, &vec![7; 200 * 1024]).await;
    token
}

#[tokio::test]
async fn a_replay_that_does_not_fit_is_asked_for_alone_and_grants_always_fit() {
    let stage = Stage::new().await;
    for n in 0..30 {
        large(&stage, &format!("large{n}")).await;
    }
    let requests = (0..30)
        .map(|n| reserve(&format!("large{n}")))
        .chain((0..900).map(|n| reserve(&format!("new{n}"))))
        .collect();
    let answered = batch(&stage, requests).await;
    let (mut replays, mut grants, mut refused) = (0, 0, Vec::new());
    for (at, item) in answered.into_iter().enumerate() {
        match item {
            Item::Response(response) => match response.verdict {
                Some(Verdict::Replay(replay)) => {
                    assert_eq!(replay.outcome.expect("whole").payload.len(), 200 * 1024);
                    replays += 1;
                }
                Some(Verdict::Granted(_)) => grants += 1,
                other => panic!("{other:?}"),
            },
            Item::Error(error) => {
                assert_eq!((error.code, error.reason.as_str()), (8, "ANSWER_TOO_LARGE"));
                refused.push(at);
            }
        }
    }
    assert_eq!((grants, replays + refused.len()), (900, 30));
    assert!(replays > 0 && !refused.is_empty(), "{replays}");
    let alone = stage
        .reserve(reserve(&format!("large{}", refused[0])))
        .await;
    assert!(matches!(alone, Verdict::Replay(_)));
}

#[tokio::test]
async fn a_thousand_recoveries_with_all_their_attributes_fit() {
    let stage = Stage::new().await;
    let attributes = |n: u8| (0..16).map(move |a| (format!("{a:0>127}"), format!("{n:0>127}")));
    let requests: Vec<_> = (0..1000)
        .map(|n| pb::ReserveRequest {
            attributes: attributes(1).collect(),
            holder: "h".repeat(255),
            ..reserve(&format!("k{n}"))
        })
        .collect();
    for some in requests.chunks(500) {
        batch(&stage, some.to_vec()).await;
    }
    stage.clock.advance(LEASE);
    let again = (0..1000).map(|n| reserve(&format!("k{n}"))).collect();
    for item in batch(&stage, again).await {
        let Item::Response(response) = item else {
            panic!("RECOVER always fits")
        };
        recovered(response.verdict.expect("a verdict"))
            .reservation
            .expect("its token");
    }
}

#[tokio::test]
async fn the_verdict_of_a_complete_fits_even_where_what_stands_does_not() {
    let stage = Stage::new().await;
    let mut requests = Vec::new();
    for n in 0..30 {
        let name = format!("large{n}");
        let token = large(&stage, &name).await;
        requests.push(complete(&name, &token, b"another"));
    }
    let request = pb::BatchCompleteRequest { requests };
    let answered = answer(stage.server.gate().batch_complete(request).await);
    assert!(answered.encoded_len() < 3 * MIB);
    let mut cut = 0;
    for item in answered.results {
        let Some(Done::Response(done)) = item.result else {
            panic!("a verdict always fits")
        };
        let stored = done.stored.expect("what stands");
        if let Some(omitted) = stored.payload_omitted {
            assert_eq!(omitted.size_bytes, 200 * 1024);
            cut += 1;
        }
    }
    assert!(cut > 0);
}
