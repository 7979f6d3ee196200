//! The policy that holds for a (namespace, environment), as it was at most a few seconds ago.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

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

/// The namespaces as they were read last.
#[derive(Debug)]
pub struct Policies {
    store: Arc<dyn Store>,
    auto_create: bool,
    kept: Mutex<HashMap<String, (Instant, Arc<Namespace>)>>,
}

impl Policies {
    /// Nothing is read yet.
    pub fn new(store: Arc<dyn Store>, auto_create: bool) -> Self {
        Self {
            store,
            auto_create,
            kept: Mutex::default(),
        }
    }

    /// The policy of one environment.
    ///
    /// # Errors
    ///
    /// `NamespaceNotFound` if there is none and it is not created by itself; the store's errors.
    pub async fn policy(&self, namespace: &str, environment: &str) -> Result<Policy, ServiceError> {
        let found = self.namespace(namespace).await?;
        let own = found
            .as_ref()
            .and_then(|found| found.environment(environment));
        if let Some(own) = own {
            return Ok(own.policy.clone());
        }
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
        let known = self.kept().get(name).cloned();
        if let Some((read_at, namespace)) = &known
            && read_at.elapsed() < AGE_MAX
        {
            return Ok(Some(Arc::clone(namespace)));
        }
        match self.store.namespace(name).await {
            Ok(Some(namespace)) => Ok(Some(self.keep(namespace))),
            Ok(None) => {
                self.kept().remove(name);
                Ok(None)
            }
            Err(error) => {
                tracing::warn!(%error, "a namespace could not be read");
                known
                    .map(|(_, stale)| Some(stale))
                    .ok_or_else(|| error.into())
            }
        }
    }

    /// Takes over what was just stored.
    pub fn keep(&self, namespace: Namespace) -> Arc<Namespace> {
        let namespace = Arc::new(namespace);
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

    fn kept(&self) -> std::sync::MutexGuard<'_, HashMap<String, (Instant, Arc<Namespace>)>> {
        // The map is whole at every point where a holder could panic.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
