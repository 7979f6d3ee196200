//! A store that fails, panics or holds calls back when it is told to. Unlike a real one it does not
//! finish what its caller gave up.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use oncegate::domain::command::Command;
use oncegate::domain::key::RecordKey;
use oncegate::port::clock::Clock;
use oncegate::port::store::{Applied, Health, Reading, Store, StoreError};
use oncegate::store::front::Front;
use oncegate::store::memory::MemoryStore;
use tokio::sync::Semaphore;

#[derive(Debug)]
pub(super) struct Faulty {
    inner: MemoryStore,
    fault: Mutex<Fault>,
    /// One permit for each call that came in.
    pub(super) came: Semaphore,
    /// One permit lets one held call go on.
    pub(super) go_on: Semaphore,
}

#[derive(Debug, Clone)]
pub(super) enum Fault {
    None,
    Fail(StoreError),
    Panic,
    Hold,
    /// Health checks alone: the failure comes after ten seconds of silence.
    Late(StoreError),
}

impl Faulty {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            inner: MemoryStore::new(Clock::Database),
            fault: Mutex::new(Fault::None),
            came: Semaphore::new(0),
            go_on: Semaphore::new(0),
        })
    }

    pub(super) fn set(&self, fault: Fault) {
        *self.fault.lock().expect("not poisoned") = fault;
    }

    async fn pass(&self) -> Result<(), StoreError> {
        let fault = self.fault.lock().expect("not poisoned").clone();
        match fault {
            Fault::None | Fault::Late(_) => Ok(()),
            Fault::Fail(error) => Err(error),
            Fault::Panic => panic!("the store's secret"),
            Fault::Hold => {
                self.came.add_permits(1);
                self.go_on.acquire().await.expect("open").forget();
                Ok(())
            }
        }
    }
}

#[async_trait]
impl Front for Faulty {
    fn behind(&self) -> &dyn Store {
        &self.inner
    }

    async fn on_carry_out(&self, command: Command) -> Result<Applied, StoreError> {
        self.pass().await?;
        self.inner.carry_out(command).await
    }

    async fn on_read(&self, keys: Vec<RecordKey>) -> Result<Reading, StoreError> {
        if let Fault::Fail(error) = &*self.fault.lock().expect("not poisoned") {
            return Err(error.clone());
        }
        self.inner.read(keys).await
    }

    async fn on_check(&self) -> Result<Health, StoreError> {
        let fault = self.fault.lock().expect("not poisoned").clone();
        match fault {
            Fault::Fail(error) => Err(error),
            Fault::Late(error) => {
                tokio::time::sleep(Duration::from_secs(10)).await;
                Err(error)
            }
            Fault::None | Fault::Panic | Fault::Hold => self.inner.check().await,
        }
    }
}
