//! What goes first, what goes together, and what is refused.

use std::collections::BTreeMap;

use super::lanes::{BATCH_MAX, TURNS, WAITING_MAX};
use super::*;
use crate::domain::command::{Complete, Renew, Reserve};
use crate::domain::key::RecordKey;
use crate::domain::outcome::{Outcome, OutcomeStatus};
use crate::domain::policy::Terms;
use crate::domain::record::{Fence, Generation, RequestId};
use crate::domain::token::Token;

type Asked = tokio::task::JoinHandle<Result<Applied, StoreError>>;

fn queue() -> Arc<Queue<&'static str>> {
    Arc::new(Queue::new())
}

fn key(namespace: &str, name: &str) -> RecordKey {
    RecordKey::parse(namespace, "live", "", name).expect("valid")
}

fn reserve(namespace: &str, name: &str) -> Command {
    Command::Reserve(Arc::new(Reserve {
        key: key(namespace, name),
        operation: "slot.claim".to_owned(),
        fingerprint: None,
        request_id: RequestId::from_bytes([9; 16]),
        lease: Duration::from_secs(30),
        holder: String::new(),
        trace_id: String::new(),
        attributes: BTreeMap::new(),
        can_recover: true,
        terms: Terms::default(),
    }))
}

const TOKEN: Token = Token {
    generation: Generation::new(1),
    fence: Fence::new(1),
};

fn renew(name: &str) -> Command {
    Command::Renew(Renew {
        key: key("ns", name),
        token: TOKEN,
        lease: Duration::from_secs(1),
    })
}

fn complete(name: &str) -> Command {
    Command::Complete(Box::new(Complete {
        key: key("ns", name),
        token: TOKEN,
        outcome: Outcome::reported(
            OutcomeStatus::Succeeded,
            Vec::new(),
            String::new(),
            String::new(),
            Vec::new(),
            None,
        ),
        retention: None,
    }))
}

/// Asks and lets the question arrive.
async fn ask(queue: &Arc<Queue<&'static str>>, command: Command) -> Asked {
    let queue = Arc::clone(queue);
    let asked = tokio::spawn(async move { queue.apply(command, Duration::from_secs(1)).await });
    tokio::task::yield_now().await;
    asked
}

async fn batch(queue: &Arc<Queue<&'static str>>) -> Batch<&'static str> {
    match queue.next().await {
        Some(Taken::Commands(batch)) => batch,
        other => panic!("no commands but {other:?}"),
    }
}

fn keys(batch: &Batch<&'static str>) -> Vec<String> {
    let first = |work: &Work| work.commands[0].command.key().key().to_owned();
    batch.iter().map(first).collect()
}

#[tokio::test]
async fn a_complete_goes_before_all_that_came_first() {
    let queue = queue();
    let _asked = [
        ask(&queue, reserve("ns", "a")).await,
        ask(&queue, renew("b")).await,
        ask(&queue, complete("c")).await,
    ];
    queue.add("a look-up").expect("there is room");
    let taken = [
        batch(&queue).await,
        batch(&queue).await,
        batch(&queue).await,
    ];
    // The second turn is the Reserves'.
    let lanes = taken.each_ref().map(|batch| batch.lane);
    assert_eq!(lanes, [Lane::Complete, Lane::Reserve, Lane::Renew]);
    assert!(matches!(
        queue.next().await,
        Some(Taken::Other("a look-up"))
    ));
}

#[tokio::test]
async fn a_complete_lifts_what_waits_for_its_key() {
    let queue = queue();
    let _asked = [
        ask(&queue, reserve("ns", "a")).await,
        ask(&queue, complete("a")).await,
    ];
    let taken = batch(&queue).await;
    assert_eq!(taken.lane, Lane::Complete);
    assert_eq!(taken[0].commands.len(), 2);
    assert!(matches!(taken[0].commands[0].command, Command::Complete(_)));
}

#[tokio::test]
async fn what_waits_leaves_together_and_each_namespace_has_its_turn() {
    let queue = queue();
    let mut asked = Vec::new();
    for number in 0..BATCH_MAX {
        asked.push(ask(&queue, reserve("busy", &format!("b{number}"))).await);
    }
    asked.push(ask(&queue, reserve("quiet", "q")).await);
    let taken = batch(&queue).await;
    assert_eq!(taken.len(), BATCH_MAX);
    assert!(keys(&taken).contains(&"q".to_owned()));
}

#[tokio::test]
async fn no_two_workers_are_at_work_on_one_key() {
    let queue = queue();
    let _first = ask(&queue, reserve("ns", "a")).await;
    let taken = batch(&queue).await;
    let _second = ask(&queue, reserve("ns", "a")).await;
    let _other = ask(&queue, reserve("ns", "b")).await;
    let others = batch(&queue).await;
    assert_eq!(keys(&others), ["b"]);
    drop(taken);
    // What was given back without an answer comes again, before what came meanwhile.
    assert_eq!(batch(&queue).await[0].commands.len(), 2);
}

#[tokio::test]
async fn a_look_up_comes_to_its_turn_however_many_commands_there_are() {
    let queue = queue();
    queue.add("a look-up").expect("there is room");
    for turn in 1..TURNS {
        let _asked = ask(&queue, complete(&format!("k{turn}"))).await;
        assert_eq!(batch(&queue).await.lane, Lane::Complete, "{turn}");
    }
    let _asked = ask(&queue, complete("last")).await;
    assert!(matches!(queue.next().await, Some(Taken::Other(_))));
}

#[tokio::test]
async fn a_key_that_is_locked_waits_alone_until_its_holder_speaks() {
    let queue = queue();
    let _asked = [
        ask(&queue, reserve("ns", "stuck")).await,
        ask(&queue, reserve("ns", "locked too")).await,
    ];
    let mut both = batch(&queue).await;
    for work in &mut both[..] {
        work.alone = true;
    }
    drop(both);
    let alone = batch(&queue).await;
    assert_eq!((alone.lane, keys(&alone).len()), (Lane::Alone, 1));
    // The other one waits until this one is back; another key does not.
    let _free = ask(&queue, reserve("ns", "free")).await;
    assert_eq!(keys(&batch(&queue).await), ["free"]);
    let name = if keys(&alone) == ["stuck"] {
        "locked too"
    } else {
        "stuck"
    };
    let _same = ask(&queue, reserve("ns", name)).await;
    let _holder = ask(&queue, complete(name)).await;
    let lifted = batch(&queue).await;
    assert_eq!((lifted.lane, lifted[0].commands.len()), (Lane::Complete, 3));
}

#[tokio::test]
async fn a_full_queue_refuses_reserves_and_never_what_a_holder_reports() {
    let queue = queue();
    let mut asked = Vec::new();
    for number in 0..WAITING_MAX {
        asked.push(ask(&queue, reserve("ns", &format!("k{number}"))).await);
    }
    let refused = queue.apply(reserve("ns", "more"), Duration::ZERO).await;
    assert!(
        matches!(refused, Err(StoreError::Overloaded)),
        "{refused:?}"
    );
    let _taken = ask(&queue, complete("k1")).await;
    assert_eq!(batch(&queue).await.lane, Lane::Complete);
}

#[tokio::test]
async fn a_reserve_that_nobody_waits_for_is_not_begun() {
    let queue = queue();
    for command in [reserve("ns", "gone"), complete("reported")] {
        let asked = ask(&queue, command).await;
        asked.abort();
        assert!(asked.await.is_err(), "it was aborted");
    }
    assert_eq!(keys(&batch(&queue).await), ["reported"]);
    let _asked = ask(&queue, reserve("ns", "here")).await;
    assert_eq!(keys(&batch(&queue).await), ["here"]);
}

#[tokio::test]
async fn a_panic_costs_the_answers_of_its_batch_and_nothing_else() {
    let queue = queue();
    let asked = ask(&queue, reserve("ns", "a")).await;
    let taken = batch(&queue).await;
    let panics = tokio::spawn(async move {
        assert!(taken.is_empty(), "on purpose");
    });
    assert!(panics.await.is_err());
    let told = asked.await.expect("it is told");
    assert!(
        matches!(told, Err(StoreError::OutcomeUnknown(_))),
        "{told:?}"
    );
    let _again = ask(&queue, reserve("ns", "a")).await;
    assert_eq!(keys(&batch(&queue).await), ["a"]);
}

#[tokio::test]
async fn a_closed_queue_ends_when_everything_is_done() {
    let queue = queue();
    let _asked = ask(&queue, reserve("ns", "a")).await;
    let taken = batch(&queue).await;
    queue.close();
    let refused = queue.apply(reserve("ns", "b"), Duration::ZERO).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))));
    let other_worker = {
        let queue = Arc::clone(&queue);
        tokio::spawn(async move { queue.next().await.is_none() })
    };
    tokio::task::yield_now().await;
    assert!(!other_worker.is_finished(), "the batch may yet come back");
    drop(taken);
    let mut back = batch(&queue).await;
    back[0].give_up(&StoreError::Unavailable(String::new()));
    drop(back);
    assert!(other_worker.await.expect("it ends"));
}
