//! `oncegate key derive`: a stable key from the parts that identify an operation.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::{Args, Subcommand};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::args::FormatArgs;
use super::exit::Exit;
use super::failure::Failure;
use super::output::Output;

/// Goes in first, so that no other use of SHA-256 gives the same digest.
const TAG: &[u8] = b"oncegate/key/v1\0";
const PREFIX: &str = "ogk1_";

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    Derive(DeriveArgs),
}

/// Make a stable key from the parts that identify an operation.
///
/// The same parts give the same key, on every machine and in every SDK; `ab c` and `a bc` give two.
/// Use what the other side controls (order number, notification id), never a random id or a time.
/// docs/cli.md has the exact format.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  oncegate run --key \"$(oncegate key derive invoice \"$ORDER\" \"$MONTH\")\" -- ./send-invoice.sh")]
pub(crate) struct DeriveArgs {
    /// The parts, in their order. An empty one is refused: most likely a variable was not set.
    #[arg(required = true, value_name = "PART")]
    parts: Vec<String>,

    #[command(flatten)]
    format: FormatArgs,
}

pub(crate) fn key(command: &KeyCommand, out: Output) -> Result<Exit, Failure> {
    let KeyCommand::Derive(args) = command;
    for (at, part) in (1..).zip(&args.parts) {
        if part.trim().is_empty() {
            let problem = format!("part {at} is empty: a key made of it would protect too much");
            return Err(Failure::usage(problem).hint("is a variable not set?"));
        }
    }
    let key = derive(&args.parts);
    out.own(args.format.format, &json!({ "key": key }), |_| {
        format!("{key}\n")
    })?;
    Ok(Exit::Ok)
}

/// `ogk1_` and the base64url, without padding, of SHA-256 over the tag and every part behind its
/// length in bytes as a big-endian 32-bit number.
fn derive(parts: &[String]) -> String {
    let mut hasher = Sha256::new();
    hasher.update(TAG);
    update_parts(&mut hasher, parts.iter().map(String::as_bytes));
    format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(hasher.finalize()))
}

/// Adds parts so that no two lists of them give the same bytes.
pub(crate) fn update_parts<'a>(hasher: &mut Sha256, parts: impl Iterator<Item = &'a [u8]>) {
    for part in parts {
        let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
        hasher.update(length.to_be_bytes());
        hasher.update(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(parts: &[&str]) -> String {
        let parts: Vec<String> = parts.iter().map(ToString::to_string).collect();
        derive(&parts)
    }

    /// Made with another implementation of the format in docs/cli.md.
    #[test]
    fn derived_keys_match_the_published_vectors() {
        for (parts, want) in [
            (
                vec!["a"],
                "ogk1_5wU46yUDEUSu7ZTJ8MhjmLXGU8kSU_XY7S6Fk2tdXlE",
            ),
            (
                vec!["ab", "c"],
                "ogk1_wieOS-kH3yIdg4LjZzGwID-HH7_6cu1HlnF8oOMxrbY",
            ),
            (
                vec!["a", "bc"],
                "ogk1_8qKmQxqBwQmAaMvCGBbrGzfBHaOcLDeQpOP0J69DrVo",
            ),
            (
                vec!["invoice", "ordre-10422", "2026-05"],
                "ogk1_kct1JAdWI5L6fswpYgMERHYYrJ6cVJrCpkCG2EfTlvo",
            ),
            (
                vec!["leie", "æøå", "🦀"],
                "ogk1_DhWXN5Wu7laLjLaVVvUBHL1uavYdlsoZQoPbDaX8ur0",
            ),
        ] {
            assert_eq!(of(&parts), want, "{parts:?}");
            let manual = include_str!("../../docs/cli.md");
            assert!(manual.contains(want), "docs/cli.md lacks {want}");
        }
    }

    #[test]
    fn where_one_part_ends_is_part_of_the_key() {
        let keys = [
            of(&["ab", "c"]),
            of(&["a", "bc"]),
            of(&["abc"]),
            of(&["a", "b", "c"]),
            of(&["c", "ab"]),
        ];
        for (at, one) in keys.iter().enumerate() {
            for other in &keys[at + 1..] {
                assert_ne!(one, other);
            }
        }
    }
}
