//! Arguments that several commands share, and how their values are read.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::failure::Failure;
use super::output::Format;
use crate::config::hex;
use crate::domain::key::RecordKey;
use crate::domain::limits;
use crate::proto::v1;

/// Where the server is, and who asks.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct ServerArgs {
    /// The server's gRPC address.
    #[arg(
        long,
        env = "ONCEGATE_ENDPOINT",
        default_value = "http://127.0.0.1:7011",
        value_name = "URL"
    )]
    pub(crate) endpoint: String,

    /// File that holds the bearer token; without it, the variable `ONCEGATE_TOKEN` is used.
    #[arg(long, env = "ONCEGATE_TOKEN_FILE", value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,

    /// File with the certificate authority of an https endpoint, in place of those of the system.
    #[arg(long, env = "ONCEGATE_CA_FILE", value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,

    /// The longest that one call may take, the time it is told to wait not counted.
    #[arg(long, default_value = "10s", value_name = "DURATION", value_parser = positive)]
    pub(crate) timeout: Duration,
}

/// How the answer is shown.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct FormatArgs {
    /// How the answer is shown: for people, or as one line of protobuf JSON.
    #[arg(
        long = "output",
        short = 'o',
        value_enum,
        default_value_t,
        value_name = "FORMAT"
    )]
    pub(crate) format: Format,
}

/// Whose record it is.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Record")]
pub(crate) struct TenancyArgs {
    /// The team's or service's space.
    #[arg(
        long,
        short,
        env = "ONCEGATE_NAMESPACE",
        default_value = "default",
        value_name = "NAME"
    )]
    pub(crate) namespace: String,

    /// The namespace's environment.
    #[arg(
        long,
        short,
        env = "ONCEGATE_ENVIRONMENT",
        default_value = "live",
        value_name = "NAME"
    )]
    pub(crate) environment: String,

    /// Your own customer or partition, if keys are unique within it only.
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        value_name = "NAME"
    )]
    pub(crate) account: String,
}

impl TenancyArgs {
    /// The record's identity, checked here so that a bad one is never sent.
    pub(crate) fn record(&self, key: &str) -> Result<v1::RecordKey, Failure> {
        RecordKey::parse(&self.namespace, &self.environment, &self.account, key)?;
        Ok(v1::RecordKey {
            namespace: self.namespace.clone(),
            environment: self.environment.clone(),
            account: self.account.clone(),
            key: key.to_owned(),
        })
    }
}

/// What a command on one record starts from.
#[derive(Debug, Clone, Args)]
pub(crate) struct RecordArgs {
    /// The idempotency key: 1 to 255 bytes, made of what the operation is about.
    #[arg(value_name = "KEY")]
    pub(crate) key: String,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
    #[command(flatten)]
    pub(crate) tenancy: TenancyArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

impl RecordArgs {
    pub(crate) fn record(&self) -> Result<v1::RecordKey, Failure> {
        self.tenancy.record(&self.key)
    }
}

/// Reads a duration such as `30s`, `5m` or `1h 30m`; zero is one.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let span =
        humantime::parse_duration(text).map_err(|error| format!("{error}; write 30s, 5m"))?;
    if span > limits::RETENTION_CAP {
        let most = humantime::format_duration(limits::RETENTION_CAP);
        return Err(format!("must be at most {most}"));
    }
    Ok(span)
}

/// Reads a duration of at least a millisecond.
pub(crate) fn positive(text: &str) -> Result<Duration, String> {
    at_least(text, Duration::from_millis(1))
}

/// Reads a duration of at least a second: a lease or a retention.
pub(crate) fn second_or_more(text: &str) -> Result<Duration, String> {
    at_least(text, limits::LEASE_MIN)
}

fn at_least(text: &str, least: Duration) -> Result<Duration, String> {
    let span = duration(text)?;
    if span < least {
        return Err(format!(
            "must be at least {}",
            humantime::format_duration(least)
        ));
    }
    Ok(span)
}

/// Reads `name=value`; the value may be empty and may hold more equals signs.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some(("", _)) => Err("the name before = is missing".to_owned()),
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Err("write NAME=VALUE".to_owned()),
    }
}

/// Reads 32 hexadecimal digits.
pub(crate) fn request_id(text: &str) -> Result<[u8; 16], String> {
    hex::read(text).ok_or_else(|| "must be 32 hexadecimal digits".to_owned())
}

/// Reads a text that must say something.
pub(crate) fn reason(text: &str) -> Result<String, String> {
    if text.trim().is_empty() || text.len() > limits::NOTE_BYTES_MAX {
        let most = limits::NOTE_BYTES_MAX;
        return Err(format!("must say why, in 1..={most} bytes"));
    }
    Ok(text.to_owned())
}

/// Refuses a name that is given twice: one of the two values would be lost.
pub(crate) fn distinct(
    pairs: &[(String, String)],
    flag: &str,
) -> Result<BTreeMap<String, String>, Failure> {
    let mut map = BTreeMap::new();
    for (name, value) in pairs {
        if map.insert(name.clone(), value.clone()).is_some() {
            return Err(Failure::usage(format!("{flag} names {name} twice")));
        }
    }
    Ok(map)
}

/// Opens a file to read; `-` is standard input.
pub(crate) fn open(path: &str) -> Result<Box<dyn Read>, Failure> {
    if path == "-" {
        return Ok(Box::new(std::io::stdin()));
    }
    let file =
        std::fs::File::open(path).map_err(|error| Failure::usage(format!("{path}: {error}")))?;
    Ok(Box::new(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit_and_stay_in_their_range() {
        for (text, want) in [
            ("30s", Some(30_000)),
            ("1500ms", Some(1500)),
            ("1h 30m", Some(5_400_000)),
            ("0s", Some(0)),
            ("30", None),
            ("-1s", None),
            ("", None),
            ("abc", None),
            ("11years", None),
            ("99999999999999999999s", None),
        ] {
            let read = duration(text).ok();
            assert_eq!(read, want.map(Duration::from_millis), "{text}");
        }
    }

    #[test]
    fn what_would_switch_protection_off_is_refused() {
        for text in ["0", "0s", "1ns", "999ms", "-1h"] {
            assert!(second_or_more(text).is_err(), "{text}");
        }
        assert_eq!(second_or_more("1s"), Ok(Duration::from_secs(1)));
        assert!(positive("0s").is_err());
        assert!(reason("  ").is_err() && reason(&"x".repeat(1025)).is_err());
    }

    #[test]
    fn a_pair_is_split_at_the_first_equals_sign() {
        assert_eq!(pair("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert_eq!(pair("a="), Ok(("a".to_owned(), String::new())));
        assert!(pair("a").is_err() && pair("=a").is_err());
    }

    #[test]
    fn a_name_given_twice_is_refused() {
        let twice = [pair("a=1").expect("valid"), pair("a=2").expect("valid")];
        assert!(distinct(&twice, "--attribute").is_err());
    }

    #[test]
    fn a_request_id_is_exactly_16_bytes() {
        let id = request_id("000102030405060708090a0B0c0d0e0f").expect("valid");
        assert_eq!(id[11], 0x0b);
        for text in [
            "",
            "00",
            "zz0102030405060708090a0b0c0d0e0f",
            "é00000000000000000000000000000",
        ] {
            assert!(request_id(text).is_err(), "{text}");
        }
    }
}
