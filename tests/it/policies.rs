//! Policies are read once for all who need them at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::join_all;
use oncegate::domain::namespace::Namespace;
use oncegate::domain::policy::Policy;
use oncegate::port::clock::Clock;
use oncegate::port::store::{Store, StoreError};
use oncegate::service::policies::Policies;
use oncegate::store::front::Front;
use oncegate::store::memory::MemoryStore;
use tokio::sync::Semaphore;

const CALLERS: usize = 1_000;

/// A store that reads a namespace only when it is let.
#[derive(Debug)]
struct Slow {
    store: MemoryStore,
    readings: AtomicUsize,
    let_go: Semaphore,
}

#[async_trait::async_trait]
impl Front for Slow {
    fn behind(&self) -> &dyn Store {
        &self.store
    }

    async fn on_namespace(&self, name: &str) -> Result<Option<Namespace>, StoreError> {
        self.readings.fetch_add(1, Ordering::SeqCst);
        let _let_go = self.let_go.acquire().await.expect("it is not closed");
        self.store.namespace(name).await
    }
}

#[tokio::test]
async fn all_who_come_while_a_policy_is_read_are_served_by_that_reading() {
    let store = Arc::new(Slow {
        store: MemoryStore::new(Clock::Database),
        readings: AtomicUsize::new(0),
        let_go: Semaphore::new(0),
    });
    let mut namespace = Namespace::with_defaults("orders");
    namespace.environments.retain(|own| own.name == "live");
    store.put_namespace(namespace).await.expect("it is stored");
    let policies = Policies::new(Arc::clone(&store) as Arc<dyn Store>, false);
    // One who hangs up takes nothing away from those who stay.
    drop(futures::FutureExt::now_or_never(
        policies.policy("orders", "live"),
    ));
    let calls = join_all((0..CALLERS).map(|_| policies.policy("orders", "live")));
    let (found, ()) = tokio::join!(calls, async {
        tokio::task::yield_now().await;
        assert_eq!(store.readings.load(Ordering::SeqCst), 1);
        store.let_go.add_permits(CALLERS);
    });
    for policy in found {
        assert_eq!(policy.expect("it is there"), Policy::default());
    }
    assert_eq!(store.readings.load(Ordering::SeqCst), 1);
    // Another name is another reading, and so is a later look for what is not there.
    for _ in 0..2 {
        let missing = policies.policy("unknown", "live").await;
        assert!(missing.is_err(), "{missing:?}");
    }
    assert_eq!(store.readings.load(Ordering::SeqCst), 3);
}
