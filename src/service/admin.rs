//! Namespaces, their environments and policies.

use std::sync::Arc;

use super::error::ServiceError;
use super::gate::{Call, Gate};
use crate::domain::caller::Permission;
use crate::domain::error::InvalidField;
use crate::domain::namespace::Namespace;

impl Gate {
    /// Creates a namespace. Creating it again as it stands answers it as it stands.
    ///
    /// # Errors
    ///
    /// `EtagMismatch` if another one of that name exists; else see [`ServiceError`].
    pub async fn create_namespace(
        &self,
        call: &Call,
        namespace: Namespace,
    ) -> Result<Arc<Namespace>, ServiceError> {
        administer(call, Some(&namespace.name))?;
        namespace
            .check()
            .map_err(|error| error.within("namespace"))?;
        let asked = Namespace {
            version: 0,
            ..namespace
        };
        if let Some(stored) = self.store.put_namespace(asked.clone()).await? {
            return Ok(self.policies.keep(stored));
        }
        let stored = self.store.namespace(&asked.name).await?;
        let stored = stored.ok_or(ServiceError::EtagMismatch("namespace"))?;
        if stored.environments == asked.environments {
            Ok(self.policies.keep(stored))
        } else {
            Err(ServiceError::EtagMismatch("namespace"))
        }
    }

    /// Reads a namespace.
    ///
    /// # Errors
    ///
    /// `NamespaceNotFound`; else see [`ServiceError`].
    pub async fn get_namespace(&self, call: &Call, name: &str) -> Result<Namespace, ServiceError> {
        administer(call, Some(name))?;
        self.store
            .namespace(name)
            .await?
            .ok_or_else(|| not_found(name))
    }

    /// Reads namespaces in the order of their names, those after `after`.
    ///
    /// # Errors
    ///
    /// See [`ServiceError`].
    pub async fn list_namespaces(
        &self,
        call: &Call,
        after: &str,
        limit: u32,
    ) -> Result<Vec<Namespace>, ServiceError> {
        administer(call, None)?;
        Ok(self.store.namespaces(after, limit).await?)
    }

    /// Replaces a namespace's environments and policies; environments can be added, never removed.
    ///
    /// # Errors
    ///
    /// `EtagMismatch` if it has changed since; else see [`ServiceError`].
    pub async fn update_namespace(
        &self,
        call: &Call,
        namespace: Namespace,
    ) -> Result<Arc<Namespace>, ServiceError> {
        administer(call, Some(&namespace.name))?;
        namespace
            .check()
            .map_err(|error| error.within("namespace"))?;
        let stored = self.store.namespace(&namespace.name).await?;
        let stored = stored.ok_or_else(|| not_found(&namespace.name))?;
        if stored.version != namespace.version {
            return Err(ServiceError::EtagMismatch("namespace"));
        }
        let removed = stored
            .environments
            .iter()
            .find(|environment| namespace.environment(&environment.name).is_none());
        if let Some(removed) = removed {
            let problem = format!("environment {} cannot be removed", removed.name);
            return Err(InvalidField::new("namespace.environments", problem).into());
        }
        let updated = self.store.put_namespace(namespace).await?;
        let updated = updated.ok_or(ServiceError::EtagMismatch("namespace"))?;
        Ok(self.policies.keep(updated))
    }
}

fn administer(call: &Call, namespace: Option<&str>) -> Result<(), ServiceError> {
    let allowed = call.caller.may(Permission::Admin, namespace, None);
    if allowed {
        Ok(())
    } else {
        Err(ServiceError::NotPermitted)
    }
}

fn not_found(name: &str) -> ServiceError {
    ServiceError::NamespaceNotFound {
        namespace: name.to_owned(),
        environment: String::new(),
    }
}
