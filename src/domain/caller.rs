//! Who calls, and what that caller may do. The credential decides which (namespace, environment)
//! may be named.

/// What a caller is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Runs effects: everything of the gate but Expire.
    Worker,
    /// Reads records.
    Reader,
    /// Reads, expires and resolves.
    Support,
    /// Everything.
    Admin,
    /// Nothing: its credential is not known (any more). A genuine token still lets it complete.
    Unknown,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Permission {
    /// Reserve, Complete, Renew, Release, Reexecute, Park and their batches.
    Gate,
    /// Lookup and the policy in force.
    Read,
    /// Expire, Resolve, the audit trail.
    Support,
    /// Namespaces and policies.
    Admin,
}

/// An authenticated caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The credential's name, as the audit trail shows it.
    pub name: String,
    /// What it is there for.
    pub role: Role,
    /// The namespace it is bound to; `None`: all.
    pub namespace: Option<String>,
    /// The environment it is bound to; `None`: all.
    pub environment: Option<String>,
}

impl Role {
    /// All of them, with the names that configuration uses.
    pub const ALL: [(&'static str, Self); 4] = [
        ("worker", Self::Worker),
        ("reader", Self::Reader),
        ("support", Self::Support),
        ("admin", Self::Admin),
    ];

    const fn allows(self, permission: Permission) -> bool {
        match (self, permission) {
            (Self::Admin, _)
            | (Self::Worker | Self::Reader | Self::Support, Permission::Read)
            | (Self::Worker, Permission::Gate)
            | (Self::Support, Permission::Support) => true,
            (Self::Unknown, _)
            | (Self::Worker, Permission::Support | Permission::Admin)
            | (Self::Reader, Permission::Gate | Permission::Support | Permission::Admin)
            | (Self::Support, Permission::Gate | Permission::Admin) => false,
        }
    }
}

impl Caller {
    /// The caller of a server that asks for no credentials.
    pub fn anyone() -> Self {
        let name = "anonymous".to_owned();
        Self {
            name,
            role: Role::Admin,
            namespace: None,
            environment: None,
        }
    }

    /// The bearer of a credential that is not known: perhaps it was withdrawn meanwhile.
    pub fn unknown() -> Self {
        let name = "unknown".to_owned();
        Self {
            name,
            role: Role::Unknown,
            namespace: None,
            environment: None,
        }
    }

    /// Whether this caller may do that there. `environment` is `None` for what concerns a whole
    /// namespace, `namespace` for what concerns all of them.
    pub fn may(
        &self,
        permission: Permission,
        namespace: Option<&str>,
        environment: Option<&str>,
    ) -> bool {
        let bound = |own: &Option<String>, asked: Option<&str>| {
            own.as_deref().is_none_or(|own| asked == Some(own))
        };
        self.role.allows(permission)
            && bound(&self.namespace, namespace)
            && bound(&self.environment, environment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_reaches_its_own_namespace_and_environment_alone() {
        let caller = Caller {
            name: "agent".to_owned(),
            role: Role::Worker,
            namespace: Some("terminal".to_owned()),
            environment: Some("live".to_owned()),
        };
        for (permission, namespace, environment, want) in [
            (Permission::Gate, Some("terminal"), Some("live"), true),
            (Permission::Read, Some("terminal"), Some("live"), true),
            (Permission::Gate, Some("terminal"), Some("test"), false),
            (Permission::Gate, Some("invoices"), Some("live"), false),
            (Permission::Support, Some("terminal"), Some("live"), false),
            (Permission::Admin, Some("terminal"), None, false),
            (Permission::Read, Some("terminal"), None, false),
            (Permission::Read, None, None, false),
        ] {
            assert_eq!(
                caller.may(permission, namespace, environment),
                want,
                "{permission:?}"
            );
        }
    }
}
