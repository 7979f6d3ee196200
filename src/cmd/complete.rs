//! `oncegate complete`: records what happened.

use std::io::Read;
use std::time::Duration;

use clap::{Args, ValueEnum};
use sha2::{Digest, Sha256};

use super::args::{self, RecordArgs};
use super::client::Client;
use super::exit::Exit;
use super::failure::Failure;
use super::output::{Output, Tone};
use super::table::Sheet;
use super::{record, text, verdict};
use crate::domain::limits;
use crate::proto::v1;
use crate::proto::v1::complete_response::Verdict;

/// Record what happened, once and for good.
///
/// Repeating it is safe. Where another outcome stands already, that one stays.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  oncegate complete ordre-10422 --token \"$TOKEN\" --payload-file answer.json \\
    --content-type application/json --effect-id invoice-4711")]
pub(crate) struct CompleteArgs {
    /// The reservation's token, as `reserve` printed it.
    #[arg(long, value_name = "TOKEN")]
    token: String,

    /// How it ended. One that may or may not have happened is not completed: park it.
    #[arg(long, value_enum, default_value_t, value_name = "STATUS")]
    status: Status,

    /// How long the outcome is replayed; the namespace's retention if not given.
    #[arg(long, value_name = "DURATION", value_parser = args::second_or_more)]
    retention: Option<Duration>,

    #[command(flatten)]
    outcome: OutcomeArgs,

    #[command(flatten)]
    target: RecordArgs,
}

/// How an effect ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Status {
    /// It happened.
    #[default]
    Succeeded,
    /// Failed for good; the same answer is replayed.
    Failed,
}

impl From<Status> for v1::OutcomeStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::Succeeded => Self::Succeeded,
            Status::Failed => Self::Failed,
        }
    }
}

/// What is replayed to everyone who comes later.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Outcome")]
pub(crate) struct OutcomeArgs {
    /// The answer, as text.
    #[arg(long, value_name = "TEXT", conflicts_with = "payload_file")]
    payload: Option<String>,

    /// The answer, as a file; - is standard input.
    #[arg(long, value_name = "FILE")]
    payload_file: Option<String>,

    /// The answer's media type.
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,

    /// The other side's own id, e.g. an invoice number.
    #[arg(long, value_name = "ID")]
    effect_id: Option<String>,

    /// A name and value that belong to the answer; may be repeated.
    #[arg(long = "metadata", value_name = "NAME=VALUE", value_parser = args::pair)]
    metadata: Vec<(String, String)>,
}

impl OutcomeArgs {
    /// Whether any part of an outcome was given.
    pub(crate) fn is_empty(&self) -> bool {
        self.payload.is_none()
            && self.payload_file.is_none()
            && self.content_type.is_none()
            && self.effect_id.is_none()
            && self.metadata.is_empty()
    }

    pub(crate) fn outcome(self, status: v1::OutcomeStatus) -> Result<v1::Outcome, Failure> {
        let payload = match (self.payload, &self.payload_file) {
            (Some(given), _) => given.into_bytes(),
            (None, Some(path)) => {
                let mut bytes = Vec::new();
                let read = args::open(path)?.read_to_end(&mut bytes);
                read.map_err(|error| Failure::usage(format!("{path}: {error}")))?;
                bytes
            }
            (None, None) => Vec::new(),
        };
        let metadata = self.metadata.into_iter();
        let outcome = v1::Outcome {
            status: status.into(),
            content_type: self.content_type.unwrap_or_default(),
            effect_id: self.effect_id.unwrap_or_default(),
            metadata: metadata
                .map(|(name, value)| v1::Metadata { name, value })
                .collect(),
            ..v1::Outcome::default()
        };
        Ok(with_payload(outcome, payload))
    }
}

/// A payload that no namespace keeps is not sent: its size and digest go in its place, so that a
/// big answer cannot make the message too large for the server.
fn with_payload(mut outcome: v1::Outcome, payload: Vec<u8>) -> v1::Outcome {
    let size = payload.len();
    let kept = u64::try_from(size).is_ok_and(|size| size <= limits::PAYLOAD_BYTES_CAP);
    if kept {
        outcome.payload = payload;
    } else {
        outcome.payload_omitted = Some(v1::PayloadOmitted {
            reason: format!("payload over {} bytes", limits::PAYLOAD_BYTES_CAP),
            size_bytes: i64::try_from(size).unwrap_or(i64::MAX),
            sha256: Sha256::digest(&payload).to_vec(),
        });
    }
    outcome
}

pub(crate) async fn complete(args: CompleteArgs, out: Output) -> Result<Exit, Failure> {
    let request = v1::CompleteRequest {
        key: Some(args.target.record()?),
        token: args.token,
        outcome: Some(args.outcome.outcome(args.status.into())?),
        retention: args.retention.map(text::to_proto),
    };
    let client = Client::connect(&args.target.server).await?;
    let response = client.gate().complete(client.request(request)).await?;
    let response = response.into_inner();
    let (sheet, exit) = judge(&response)?;
    out.answer(args.target.format.format, &response, |_| sheet)?;
    Ok(exit)
}

fn judge(response: &v1::CompleteResponse) -> Result<(Sheet, Exit), Failure> {
    let used = response.outcome_used;
    let (name, tone, meaning, exit) = match response.verdict() {
        Verdict::Recorded => ("RECORDED", Tone::Good, "it is recorded for good", Exit::Ok),
        Verdict::AlreadyRecorded => (
            "ALREADY_RECORDED",
            Tone::Good,
            "the same outcome stood there already",
            Exit::Ok,
        ),
        Verdict::Divergent => (
            "DIVERGENT",
            Tone::Bad,
            "another outcome stands and stays; this one is kept as evidence",
            Exit::Conflict,
        ),
        Verdict::Superseded if used => (
            "SUPERSEDED",
            Tone::Wait,
            "another holder had taken over; the outcome is used all the same",
            Exit::Ok,
        ),
        Verdict::Superseded => (
            "SUPERSEDED",
            Tone::Bad,
            "another holder has taken over; this outcome is kept as evidence",
            Exit::Stale,
        ),
        Verdict::Unspecified => return Err(verdict::unknown()),
    };
    let sheet = Sheet::new().toned("verdict", name, tone);
    let mut sheet = record::state(sheet, response.state()).row("meaning", meaning);
    if let Some(stored) = &response.stored {
        sheet = record::outcome(sheet, stored);
    }
    if response.completed_at.is_some() {
        sheet = sheet.row("completed at", text::time(response.completed_at.as_ref()));
    }
    Ok((sheet, exit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_over_every_limit_is_sent_as_size_and_digest() {
        let cap = usize::try_from(limits::PAYLOAD_BYTES_CAP).expect("it fits");
        let kept = with_payload(v1::Outcome::default(), vec![7; cap]);
        assert!(kept.payload.len() == cap && kept.payload_omitted.is_none());
        let left = with_payload(v1::Outcome::default(), vec![7; cap + 1]);
        assert!(left.payload.is_empty());
        let omitted = left.payload_omitted.expect("it says so");
        assert_eq!(omitted.size_bytes, i64::try_from(cap + 1).expect("it fits"));
        assert_eq!(omitted.sha256, Sha256::digest(vec![7; cap + 1]).to_vec());
    }

    #[test]
    fn an_outcome_that_was_not_used_is_no_success() {
        let response = |verdict: Verdict, used| v1::CompleteResponse {
            verdict: verdict.into(),
            outcome_used: used,
            ..v1::CompleteResponse::default()
        };
        for (verdict, used, want) in [
            (Verdict::Recorded, true, Some(Exit::Ok)),
            (Verdict::AlreadyRecorded, false, Some(Exit::Ok)),
            (Verdict::Divergent, false, Some(Exit::Conflict)),
            (Verdict::Superseded, true, Some(Exit::Ok)),
            (Verdict::Superseded, false, Some(Exit::Stale)),
            (Verdict::Unspecified, false, None),
        ] {
            let judged = judge(&response(verdict, used)).ok();
            assert_eq!(judged.map(|(_, exit)| exit), want, "{verdict:?} {used}");
        }
    }
}
