//! What a run leaves for later callers: exit code and output as a small JSON document, and how it is
//! replayed. docs/cli.md describes the format.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::child::Finished;
use super::pass::Captured;
use crate::cmd::exit::Exit;
use crate::cmd::failure::Failure;
use crate::cmd::{output, text, verdict};
use crate::domain::limits;
use crate::proto::v1;

const CONTENT_TYPE: &str = "application/vnd.oncegate.run+json";
/// Beside the payload, so that it outlives a payload that is not kept.
const EXIT_CODE: &str = "exit-code";
/// What the document needs besides the output.
const ROOM_FOR_THE_REST: u64 = 1024;

/// The document. `stdout` and `stderr` are UTF-8 or, under their other name, base64; the sizes are
/// those of the whole output, so that one that was cut shows.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
struct Document {
    exit_code: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stdout: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stdout_base64: Option<String>,
    stdout_bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stderr: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stderr_base64: Option<String>,
    stderr_bytes: u64,
}

/// The range of `--max-output`: what no namespace could keep is not collected.
pub(super) fn limit() -> clap::builder::RangedI64ValueParser<u32> {
    let most = limits::PAYLOAD_BYTES_CAP - ROOM_FOR_THE_REST;
    clap::value_parser!(u32).range(0..=i64::try_from(most).unwrap_or(i64::MAX))
}

/// The outcome of a command that ended by itself.
pub(super) fn of(code: u8, finished: &Finished, max_output: u32) -> v1::Outcome {
    let max = usize::try_from(max_output).unwrap_or(usize::MAX);
    // Each may have half; what one does not need, the other may have.
    let half = max / 2;
    let stderr = Kept::of(&finished.stderr, half);
    let stdout = Kept::of(&finished.stdout, max - stderr.cost.min(max));
    let stderr = Kept::of(&finished.stderr, max - stdout.cost.min(max)).larger(stderr);
    let (stdout, stdout_base64) = stdout.fields();
    let (stderr, stderr_base64) = stderr.fields();
    let document = Document {
        exit_code: code,
        stdout,
        stdout_base64,
        stdout_bytes: finished.stdout.bytes,
        stderr,
        stderr_base64,
        stderr_bytes: finished.stderr.bytes,
    };
    let status = if code == 0 {
        v1::OutcomeStatus::Succeeded
    } else {
        v1::OutcomeStatus::Failed
    };
    v1::Outcome {
        status: status.into(),
        payload: serde_json::to_vec(&document).unwrap_or_default(),
        content_type: CONTENT_TYPE.to_owned(),
        metadata: vec![v1::Metadata {
            name: EXIT_CODE.to_owned(),
            value: code.to_string(),
        }],
        ..v1::Outcome::default()
    }
}

/// The part of one output that is kept, and how many bytes it takes in the document.
struct Kept {
    value: Value,
    cost: usize,
}

enum Value {
    Text(String),
    Base64(String),
}

impl Kept {
    fn of(captured: &Captured, max: usize) -> Self {
        match str::from_utf8(&captured.kept) {
            Ok(text) => Self::text(text, max),
            // The limit of what is kept may have cut the last character in two.
            Err(error) if error.error_len().is_none() && is_cut(captured) => {
                let whole = &captured.kept[..error.valid_up_to()];
                Self::text(str::from_utf8(whole).unwrap_or_default(), max)
            }
            Err(_) => {
                let bytes = captured.kept.len().min(max / 4 * 3);
                let value = STANDARD.encode(&captured.kept[..bytes]);
                Self {
                    cost: value.len(),
                    value: Value::Base64(value),
                }
            }
        }
    }

    fn text(text: &str, max: usize) -> Self {
        let (mut cost, mut end) = (0, 0);
        for (at, c) in text.char_indices() {
            let next = cost + cost_of(c);
            if next > max {
                break;
            }
            (cost, end) = (next, at + c.len_utf8());
        }
        Self {
            value: Value::Text(text[..end].to_owned()),
            cost,
        }
    }

    fn larger(self, other: Self) -> Self {
        if self.cost >= other.cost { self } else { other }
    }

    fn fields(self) -> (Option<String>, Option<String>) {
        match self.value {
            Value::Text(text) => (Some(text), None),
            Value::Base64(text) => (None, Some(text)),
        }
    }
}

fn is_cut(captured: &Captured) -> bool {
    u64::try_from(captured.kept.len()).is_ok_and(|kept| kept < captured.bytes)
}

/// The bytes of a character inside a JSON string.
const fn cost_of(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        c if c < ' ' => 6,
        c => c.len_utf8(),
    }
}

/// Prints what was kept and ends with the stored exit code.
pub(super) fn replay(found: &v1::Replay) -> Result<Exit, Failure> {
    let Some(stored) = &found.outcome else {
        return Err(verdict::unknown());
    };
    let when = text::time(found.completed_at.as_ref());
    let told = format!(
        "replayed: ran at {when} (attempt {}); nothing was run",
        found.attempt
    );
    if let Some(left) = &stored.payload_omitted {
        output::note(&told);
        let reason = &left.reason;
        output::note(&format!("its output was not kept: {reason}"));
        return Ok(exit_of(stored, None));
    }
    if stored.content_type != CONTENT_TYPE {
        // Recorded by a person or another program: what it says is all there is.
        output::data(&stored.payload)?;
        output::note(&told);
        return Ok(exit_of(stored, None));
    }
    let document: Document = serde_json::from_slice(&stored.payload).map_err(|error| {
        Failure::new(
            Exit::Failed,
            format!("the stored outcome is not one of `oncegate run`: {error}"),
        )
    })?;
    let stdout = bytes(
        document.stdout.as_deref(),
        document.stdout_base64.as_deref(),
    )?;
    let stderr = bytes(
        document.stderr.as_deref(),
        document.stderr_base64.as_deref(),
    )?;
    output::data(&stdout)?;
    output::error_bytes(&stderr);
    output::note(&told);
    for (name, kept, whole) in [
        ("standard output", stdout.len(), document.stdout_bytes),
        ("standard error", stderr.len(), document.stderr_bytes),
    ] {
        if u64::try_from(kept).is_ok_and(|kept| kept < whole) {
            output::note(&format!(
                "of its {name} the first {kept} of {whole} bytes were kept"
            ));
        }
    }
    Ok(exit_of(stored, Some(document.exit_code)))
}

fn bytes(text: Option<&str>, base64: Option<&str>) -> Result<Vec<u8>, Failure> {
    match (text, base64) {
        (Some(text), _) => Ok(text.as_bytes().to_vec()),
        (None, Some(encoded)) => STANDARD.decode(encoded).map_err(|error| {
            Failure::new(
                Exit::Failed,
                format!("the stored output is damaged: {error}"),
            )
        }),
        (None, None) => Ok(Vec::new()),
    }
}

/// The stored exit code; without one, what the outcome's status says.
fn exit_of(stored: &v1::Outcome, in_document: Option<u8>) -> Exit {
    let mut codes = stored
        .metadata
        .iter()
        .filter(|entry| entry.name == EXIT_CODE);
    let code = codes.find_map(|entry| entry.value.parse().ok());
    match (code.or(in_document), stored.status()) {
        (Some(code), _) => Exit::Command(code),
        (None, v1::OutcomeStatus::Succeeded) => Exit::Ok,
        (None, v1::OutcomeStatus::Failed | v1::OutcomeStatus::Unspecified) => Exit::Failed,
    }
}

#[cfg(test)]
#[path = "outcome_tests.rs"]
mod tests;
