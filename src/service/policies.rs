//! The policy that holds for a (namespace, environment), as it was at most a few seconds ago.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use tokio::time::Instant;

use super::error::ServiceError;
use crate::domain::namespace::{Environment, Namespace, SignalThresholds};
use crate::domain::policy::Policy;
use crate::port::store::{Store, StoreError};

/// How old a policy may be before it is read again: a change takes effect everywhere within this.
pub const AGE_MAX: Duration = Duration::from_secs(5);
/// Namespaces kept; beyond it the memory is emptied and filled anew.
const KEPT_MAX: usize = 10_000;
const CREATE_TRIES: u32 = 5;

/// A namespace while it is read.
type Reading = Shared<BoxFuture<'static, Result<Option<Arc<Namespace>>, StoreError>>>;

/// The namespaces as they were read last.
#[derive(Debug)]
pub struct Policies {
    store: Arc<dyn Store>,
    auto_create: bool,
    kept: Mutex<HashMap<String, (Instant, Arc<Namespace>)>>,
    /// What one caller reads serves all who come meanwhile.
    reading: Mutex<HashMap<String, Reading>>,
}

impl Policies {
    /// Nothing is read yet.
    pub fn new(store: Arc<dyn Store>, auto_create: bool) -> Self {
        Self {
            store,
            auto_create,
            kept: Mutex::default(),
            reading: Mutex::default(),
        }
    }

    /// The policy of one environment.
    ///
    /// # Errors
    ///
    /// `NamespaceNotFound` if there is none and it is not created by itself; the store's errors.
    pub async fn policy(&self, namespace: &str, environment: &str) -> Result<Policy, ServiceError> {
        let own = |found: &Namespace| Some(found.environment(environment)?.policy.clone());
        if let Some(policy) = self.fresh(namespace).and_then(|found| own(&found)) {
            return Ok(policy);
        }
        // Boxed: it is rare, and would make every call's future larger.
        Box::pin(async {
            let found = self.namespace(namespace).await?;
            match found.and_then(|found| own(&found)) {
                Some(policy) => Ok(policy),
                None => self.first_use(namespace, environment).await,
            }
        })
        .await
    }

    async fn first_use(&self, namespace: &str, environment: &str) -> Result<Policy, ServiceError> {
        if self.auto_create {
            return self.create(namespace, environment).await;
        }
        let (namespace, environment) = (namespace.to_owned(), environment.to_owned());
        Err(ServiceError::NamespaceNotFound {
            namespace,
            environment,
        })
    }

    /// The namespace of that name. One that was read lately also serves while the store is away.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn namespace(&self, name: &str) -> Result<Option<Arc<Namespace>>, ServiceError> {
        if let Some(namespace) = self.fresh(name) {
            return Ok(Some(namespace));
        }
        match self.read(name).await {
            Ok(Some(namespace)) => Ok(Some(self.keep_read(namespace))),
            Ok(None) => {
                self.kept().remove(name);
                Ok(None)
            }
            Err(error) => {
                tracing::warn!(%error, "a namespace could not be read");
                let stale = self.kept().get(name).map(|(_, stale)| Arc::clone(stale));
                stale.map(Some).ok_or_else(|| error.into())
            }
        }
    }

    /// The namespace as it was read lately, if it was.
    fn fresh(&self, name: &str) -> Option<Arc<Namespace>> {
        let kept = self.kept();
        let (read_at, namespace) = kept.get(name)?;
        (read_at.elapsed() < AGE_MAX).then(|| Arc::clone(namespace))
    }

    /// Asks the store, once for all who ask at the same time.
    async fn read(&self, name: &str) -> Result<Option<Arc<Namespace>>, StoreError> {
        let reading = {
            let mut all = self.reading();
            if all.len() >= KEPT_MAX {
                // Left behind by callers who hung up.
                all.clear();
            }
            let begin = || {
                let (store, name) = (Arc::clone(&self.store), name.to_owned());
                let reading = async move { Ok(store.namespace(&name).await?.map(Arc::new)) };
                reading.boxed().shared()
            };
            all.entry(name.to_owned()).or_insert_with(begin).clone()
        };
        let read = reading.await;
        self.reading().remove(name);
        read
    }

    /// Takes over what was just stored.
    pub fn keep(&self, namespace: Namespace) -> Arc<Namespace> {
        self.keep_read(Arc::new(namespace))
    }

    fn keep_read(&self, namespace: Arc<Namespace>) -> Arc<Namespace> {
        let mut kept = self.kept();
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.insert(
            namespace.name.clone(),
            (Instant::now(), Arc::clone(&namespace)),
        );
        namespace
    }

    async fn create(&self, name: &str, environment: &str) -> Result<Policy, ServiceError> {
        for _ in 0..CREATE_TRIES {
            let stored = self.store.namespace(name).await?;
            let mut namespace = stored.unwrap_or_else(|| Namespace::with_defaults(name));
            if let Some(own) = namespace.environment(environment)
                && namespace.version > 0
            {
                let policy = own.policy.clone();
                self.keep(namespace);
                return Ok(policy);
            }
            if namespace.environment(environment).is_none() {
                namespace.environments.push(Environment {
                    name: environment.to_owned(),
                    policy: Policy::default(),
                    signal_thresholds: SignalThresholds::default(),
                });
            }
            namespace.check()?;
            if let Some(stored) = self.store.put_namespace(namespace).await? {
                tracing::info!(
                    namespace = name,
                    environment,
                    "namespace created by its first use"
                );
                self.keep(stored);
            }
        }
        Err(StoreError::Unavailable("the namespace keeps changing".to_owned()).into())
    }

    // The maps are whole at every point where a holder could panic.
    fn kept(&self) -> MutexGuard<'_, HashMap<String, (Instant, Arc<Namespace>)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reading(&self) -> MutexGuard<'_, HashMap<String, Reading>> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
