//! What is wrong with an input, said so that its sender can mend it. Never holds the value itself.

/// An input that breaks a limit. Repeating the same call fails the same way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct InvalidField {
    /// The field as a path from the message's root, e.g. `key.namespace`.
    pub field: String,
    /// The limit that was broken, e.g. `must be 1..=255 bytes, is 300`.
    pub problem: String,
}

impl InvalidField {
    /// Names a field and the limit that it breaks.
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            problem: problem.into(),
        }
    }

    /// Puts the field below an outer one: `key` becomes `key.key` inside `key`.
    #[must_use]
    pub fn within(mut self, outer: &str) -> Self {
        self.field = format!("{outer}.{}", self.field);
        self
    }
}
