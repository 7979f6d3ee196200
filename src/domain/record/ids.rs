//! The numbers and ids of a record, each a type of its own, and the etag made of them.

use std::fmt;

use crate::domain::error::InvalidField;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(i64);

        impl $name {
            /// Wraps the number.
            pub const fn new(number: i64) -> Self {
                Self(number)
            }

            /// The number.
            pub const fn get(self) -> i64 {
                self.0
            }
        }
    };
}

number! {
    /// One life of a key: another one begins when an expired key opens again.
    Generation
}
number! {
    /// The fencing token: rises strictly per record, across takeovers, Expire and retention.
    Fence
}
number! {
    /// Rises with every write of a record; what a conditional write compares.
    Version
}

/// 16 random bytes that an SDK makes for one Reserve or Reexecute call and keeps over its retries.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestId([u8; 16]);

impl RequestId {
    /// Takes the 16 bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The 16 bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

/// Hidden: whoever knows it gets the reservation.
impl fmt::Debug for RequestId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("RequestId(hidden)")
    }
}

/// Pins down a record's state: it changes with every write and never takes an earlier value again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Etag {
    /// The record's generation; all that Expire compares.
    pub generation: Generation,
    /// The record's fence.
    pub fence: Fence,
    /// The record's version.
    pub version: Version,
}

impl Etag {
    /// Reads the text form.
    ///
    /// # Errors
    ///
    /// The text is not an etag that this service has made.
    pub fn parse(field: &str, text: &str) -> Result<Self, InvalidField> {
        let malformed =
            || InvalidField::new(field, "must be an etag of a record as Lookup shows it");
        let mut parts = text.split('.').map(|part| i64::from_str_radix(part, 16));
        let mut next = || parts.next().and_then(Result::ok).ok_or_else(malformed);
        let etag = Self {
            generation: Generation(next()?),
            fence: Fence(next()?),
            version: Version(next()?),
        };
        if parts.next().is_some() {
            Err(malformed())
        } else {
            Ok(etag)
        }
    }
}

impl fmt::Display for Etag {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{:x}.{:x}.{:x}",
            self.generation.0, self.fence.0, self.version.0
        )
    }
}
