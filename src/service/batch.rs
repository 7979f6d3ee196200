//! Many at once: each item judged on its own and in order, one bad item failing only itself.

use std::collections::HashMap;
use std::future::Future;

use futures::StreamExt;
use futures::stream::FuturesUnordered;

use super::error::ServiceError;
use crate::domain::key::{KeyDigest, RecordKey};

/// Runs `work` on every item and gives the results in the items' order. Items of one key run one
/// after the other; the same key twice: the second is judged after the first.
pub async fn each_on_its_own<I, T, F>(
    items: Vec<Result<I, ServiceError>>,
    key: impl Fn(&I) -> &RecordKey,
    work: impl Fn(I) -> F,
) -> Vec<Result<T, ServiceError>>
where
    F: Future<Output = Result<T, ServiceError>>,
{
    let mut results: Vec<Option<Result<T, ServiceError>>> = Vec::new();
    let mut by_key: HashMap<KeyDigest, Vec<(usize, I)>> = HashMap::new();
    let mut order: Vec<KeyDigest> = Vec::new();
    for (at, item) in items.into_iter().enumerate() {
        match item {
            Ok(item) => {
                let digest = key(&item).digest();
                results.push(None);
                by_key
                    .entry(digest)
                    .or_insert_with(|| {
                        order.push(digest);
                        Vec::new()
                    })
                    .push((at, item));
            }
            Err(error) => results.push(Some(Err(error))),
        }
    }
    let work = &work;
    let one_key = |items: Vec<(usize, I)>| async move {
        let mut done = Vec::with_capacity(items.len());
        for (at, item) in items {
            done.push((at, work(item).await));
        }
        done
    };
    // Collected: a borrowing iterator in the stream would keep the future from being `Send`.
    let keys: Vec<_> = order
        .iter()
        .filter_map(|digest| by_key.remove(digest))
        .map(one_key)
        .collect();
    // All keys at once: the store puts them into the same statements.
    let done: Vec<_> = keys
        .into_iter()
        .collect::<FuturesUnordered<_>>()
        .collect()
        .await;
    for (at, result) in done.into_iter().flatten() {
        if let Some(place) = results.get_mut(at) {
            *place = Some(result);
        }
    }
    results
        .into_iter()
        .map(|result| result.unwrap_or(Err(ServiceError::OutcomeUnknown)))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[tokio::test]
    async fn results_come_in_the_order_of_the_items_and_one_key_runs_in_order() {
        let key = |name: &str| RecordKey::parse("ns", "live", "", name).expect("valid");
        let items = vec![
            Ok((key("a"), 0)),
            Err(ServiceError::TokenInvalid),
            Ok((key("b"), 2)),
            Ok((key("a"), 3)),
        ];
        let ran = Mutex::new(Vec::new());
        let results = each_on_its_own(
            items,
            |item| &item.0,
            |(key, number)| {
                ran.lock()
                    .expect("not poisoned")
                    .push((key.key().to_owned(), number));
                async move { Ok(number) }
            },
        )
        .await;
        assert_eq!(
            results,
            [Ok(0), Err(ServiceError::TokenInvalid), Ok(2), Ok(3)]
        );
        let ran = ran.into_inner().expect("not poisoned");
        let of_a: Vec<_> = ran
            .iter()
            .filter(|(key, _)| key == "a")
            .map(|(_, n)| *n)
            .collect();
        assert_eq!(of_a, [0, 3]);
    }
}
