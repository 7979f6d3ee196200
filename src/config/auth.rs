//! Who may call, as a file lists it: bearer tokens and what their bearers may do.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::domain::caller::{Caller, Role};
use crate::domain::key::check_name;

/// All namespaces, or all environments.
const ALL: &str = "*";
/// A token shorter than this can be guessed.
const TOKEN_BYTES_MIN: usize = 16;

/// One bearer token and its bearer. The token itself stands in no configuration: only its digest, or
/// a file that holds it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListedCredential {
    /// How the audit trail names its bearer.
    pub name: String,
    /// SHA-256 of the token in hexadecimal digits.
    #[serde(default)]
    pub sha256: Option<String>,
    /// A file that holds the token.
    #[serde(default)]
    pub file: Option<PathBuf>,
    /// The namespace, or `*`.
    pub namespace: String,
    /// The environment, or `*`.
    pub environment: String,
    /// What its bearer is there for.
    pub role: String,
}

/// A credential as it may be shown.
#[derive(Debug, Serialize)]
pub struct ShownCredential<'a> {
    name: &'a str,
    sha256: &'static str,
    namespace: &'a str,
    environment: &'a str,
    role: &'a str,
}

/// A file that holds only credentials.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CredentialsFile {
    /// All of them.
    #[serde(default)]
    pub credentials: Vec<ListedCredential>,
}

impl ListedCredential {
    /// Leaves out what tells of the token.
    pub fn shown(&self) -> ShownCredential<'_> {
        ShownCredential {
            name: &self.name,
            sha256: "hidden",
            namespace: &self.namespace,
            environment: &self.environment,
            role: &self.role,
        }
    }

    /// The token's digest and its bearer.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it, without the token.
    pub fn resolve(&self) -> Result<([u8; 32], Caller), Vec<String>> {
        let mut problems = Vec::new();
        let mut keep = |problem: Result<(), String>| problems.extend(problem.err());
        if self.name.is_empty() || self.name.len() > 255 || self.name.chars().any(char::is_control)
        {
            keep(Err(
                "name: must be 1..=255 bytes without control characters".to_owned(),
            ));
        }
        for (field, value) in [
            ("namespace", &self.namespace),
            ("environment", &self.environment),
        ] {
            if value != ALL {
                keep(check_name(field, value).map_err(|error| error.to_string()));
            }
        }
        let role = Role::ALL.iter().find(|(name, _)| *name == self.role);
        if role.is_none() {
            let names = Role::ALL.map(|(name, _)| name).join(", ");
            keep(Err(format!("role: must be one of {names}")));
        }
        let digest = self.digest();
        keep(digest.as_ref().map(|_| ()).map_err(Clone::clone));
        let (Some((_, role)), Ok(digest), true) = (role, digest, problems.is_empty()) else {
            return Err(problems);
        };
        let bound = |value: &String| (value != ALL).then(|| value.clone());
        Ok((
            digest,
            Caller {
                name: self.name.clone(),
                role: *role,
                namespace: bound(&self.namespace),
                environment: bound(&self.environment),
            },
        ))
    }

    fn digest(&self) -> Result<[u8; 32], String> {
        match (&self.sha256, &self.file) {
            (Some(hex), None) => super::hex::read(hex)
                .ok_or_else(|| "sha256: must be 64 hexadecimal digits".to_owned()),
            (None, Some(file)) => digest_of(file),
            (Some(_), Some(_)) => Err("give sha256 or file, not both".to_owned()),
            (None, None) => Err("give sha256 or file".to_owned()),
        }
    }
}

fn digest_of(file: &Path) -> Result<[u8; 32], String> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| format!("file {}: {error}", file.display()))?;
    let token = text.trim();
    if token.len() < TOKEN_BYTES_MIN {
        return Err(format!(
            "file {}: the bearer token must be at least {TOKEN_BYTES_MIN} bytes",
            file.display()
        ));
    }
    Ok(Sha256::digest(token).into())
}
