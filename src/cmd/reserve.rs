//! `oncegate reserve`: asks for the right to run an effect and shows the verdict.

use std::io::Read;
use std::time::Duration;

use clap::{Args, ValueEnum};
use sha2::{Digest, Sha256};

use super::args::{self, RecordArgs};
use super::client::{self, Client};
use super::exit::Exit;
use super::failure::Failure;
use super::output::{Output, Tone};
use super::table::Sheet;
use super::{record, text, verdict};
use crate::proto::v1;
use crate::proto::v1::reserve_response::Verdict;

/// The scheme of a fingerprint over exact bytes.
const RAW: &str = "raw-sha256-v1";

/// Ask for the right to run an effect.
///
/// Only GRANTED is that right. REPLAY shows the stored outcome. Every other verdict means: run
/// nothing; its exit code tells which it is.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  oncegate reserve ordre-10422 --operation invoice.send --fingerprint-file invoice.json --wait 10s
  oncegate complete ordre-10422 --token \"$TOKEN\" --payload '{\"invoice\":4711}'")]
pub(crate) struct ReserveArgs {
    /// What the effect is, e.g. `slot.claim`; the same key for another operation is a mismatch.
    #[arg(long, value_name = "NAME")]
    operation: String,

    #[command(flatten)]
    fingerprint: FingerprintArgs,

    /// How long the right is held without a renewal; the namespace's default if not given.
    #[arg(long, value_name = "DURATION", value_parser = args::second_or_more)]
    lease: Option<Duration>,

    /// How long to wait for a holder that is at work.
    #[arg(long, value_name = "DURATION", value_parser = args::duration, default_value = "0s")]
    wait: Duration,

    /// Who asks, for support: pod, job, person.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    holder: String,

    /// What support can search for; may be repeated.
    #[arg(long = "attribute", value_name = "NAME=VALUE", value_parser = args::pair)]
    attributes: Vec<(String, String)>,

    /// You know what RECOVER means; without it a stranded record answers `IN_PROGRESS`.
    #[arg(long)]
    can_recover: bool,

    /// What the other side can do, instead of what the namespace says.
    #[arg(long, value_enum, value_name = "CLASS")]
    effect_class: Option<EffectClass>,

    /// To repeat a call whose answer was lost: the 32 hexadecimal digits that it was made with.
    #[arg(long, value_name = "HEX", value_parser = args::request_id)]
    request_id: Option<[u8; 16]>,

    #[command(flatten)]
    target: RecordArgs,
}

/// What the request was, so that reusing the key for another one is noticed.
#[derive(Debug, Clone, Args)]
#[group(multiple = false)]
pub(crate) struct FingerprintArgs {
    /// What the request is: the same key with another text is a mismatch.
    #[arg(long, value_name = "TEXT")]
    fingerprint: Option<String>,

    /// The request itself, as a file; - is standard input.
    #[arg(long, value_name = "FILE")]
    fingerprint_file: Option<String>,
}

impl FingerprintArgs {
    pub(crate) fn digest(&self) -> Result<Option<v1::Fingerprint>, Failure> {
        let mut hasher = Sha256::new();
        if let Some(given) = &self.fingerprint {
            hasher.update(given.as_bytes());
        } else if let Some(path) = &self.fingerprint_file {
            let mut file = args::open(path)?;
            let mut chunk = vec![0; 64 * 1024];
            loop {
                let read = file.read(&mut chunk);
                let read = read.map_err(|error| Failure::usage(format!("{path}: {error}")))?;
                if read == 0 {
                    break;
                }
                hasher.update(&chunk[..read]);
            }
        } else {
            return Ok(None);
        }
        Ok(Some(v1::Fingerprint {
            scheme: RAW.to_owned(),
            digest: hasher.finalize().to_vec(),
        }))
    }
}

/// What the effect's other side can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EffectClass {
    /// Nothing is known: never repeated automatically.
    Opaque,
    /// A receipt row is written in the effect's own transaction.
    Receipt,
    /// It deduplicates by the downstream key.
    Keyed,
    /// It refuses lower fences.
    Fenced,
    /// It can only be asked.
    Queryable,
    /// Repeating is harmless.
    Repeatable,
}

impl From<EffectClass> for v1::EffectClass {
    fn from(class: EffectClass) -> Self {
        match class {
            EffectClass::Opaque => Self::Opaque,
            EffectClass::Receipt => Self::Receipt,
            EffectClass::Keyed => Self::Keyed,
            EffectClass::Fenced => Self::Fenced,
            EffectClass::Queryable => Self::Queryable,
            EffectClass::Repeatable => Self::Repeatable,
        }
    }
}

pub(crate) async fn reserve(args: ReserveArgs, out: Output) -> Result<Exit, Failure> {
    let key = args.target.record()?;
    let request = v1::ReserveRequest {
        key: Some(key),
        operation: args.operation,
        fingerprint: args.fingerprint.digest()?,
        request_id: match args.request_id {
            Some(given) => given.to_vec(),
            None => client::request_id()?.to_vec(),
        },
        lease: args.lease.map(text::to_proto),
        wait: Some(text::to_proto(args.wait)),
        holder: args.holder,
        attributes: args::distinct(&args.attributes, "--attribute")?,
        can_recover: args.can_recover,
        effect_class: args
            .effect_class
            .map_or(v1::EffectClass::Unspecified, Into::into)
            .into(),
    };
    let client = Client::connect(&args.target.server).await?;
    let request = client.waiting(request, args.wait);
    let response = client.gate().reserve(request).await?.into_inner();
    let (sheet, exit) = judge(&response)?;
    out.answer(args.target.format.format, &response, |_| sheet)?;
    Ok(exit)
}

/// What a verdict shows, and how the command ends with it.
fn judge(response: &v1::ReserveResponse) -> Result<(Sheet, Exit), Failure> {
    let named = |name, tone| Sheet::new().toned("verdict", name, tone);
    let (sheet, exit) = match response.verdict.as_ref().ok_or_else(verdict::unknown)? {
        Verdict::Granted(held) => {
            let sheet = record::reservation(named("GRANTED", Tone::Good), held);
            (sheet, Exit::Ok)
        }
        Verdict::Replay(found) => (record::replay(named("REPLAY", Tone::Good), found), Exit::Ok),
        Verdict::InProgress(found) => {
            let sheet = in_progress(named("IN_PROGRESS", Tone::Wait), found);
            (sheet, Exit::InProgress)
        }
        Verdict::Recover(found) => (recover(named("RECOVER", Tone::Wait), found), Exit::Recover),
        Verdict::Mismatch(found) => {
            let sheet = told(named("MISMATCH", Tone::Bad), &verdict::mismatch(found));
            (sheet, Exit::Mismatch)
        }
        Verdict::Parked(found) => {
            let sheet = told(named("PARKED", Tone::Bad), &verdict::parked(found));
            (sheet, Exit::Parked)
        }
        Verdict::Expired(found) => {
            let sheet = told(named("EXPIRED", Tone::Wait), &verdict::expired(found));
            (sheet.row("effect id", &found.effect_id), Exit::Expired)
        }
    };
    if response.fingerprint_not_compared {
        let note = "not compared: it is missing on one side or of another scheme";
        return Ok((sheet.row("fingerprint", note), exit));
    }
    Ok((sheet, exit))
}

/// Adds what a verdict means and what to do.
pub(crate) fn told(mut sheet: Sheet, meaning: &Failure) -> Sheet {
    for (name, line) in ["meaning", "next"].into_iter().zip(&meaning.lines) {
        sheet = sheet.row(name, line);
    }
    sheet
}

fn in_progress(sheet: Sheet, found: &v1::InProgress) -> Sheet {
    told(
        record::state(sheet, found.state()),
        &verdict::in_progress(found),
    )
}

fn recover(sheet: Sheet, found: &v1::Recover) -> Sheet {
    let mut sheet = match &found.reservation {
        Some(held) => record::reservation(sheet, held),
        None => sheet,
    };
    sheet = sheet.row("effect class", record::class_name(found.effect_class()));
    if found.effect_class() == v1::EffectClass::Queryable {
        let left = text::proto_span(found.settle_remaining.as_ref());
        sheet = sheet.row("settled in", left);
    }
    if found.reexecute_approved {
        sheet = sheet.row("approved", "a person has approved one more run");
    }
    for (name, value) in &found.attributes {
        sheet = sheet.row("attribute", format!("{name}={value}"));
    }
    for entry in &found.attempts {
        sheet = sheet.row("history", record::attempt(entry));
    }
    sheet
        .row(
            "meaning",
            "an earlier holder disappeared; this is not the right to run the effect",
        )
        .row(
            "next",
            "find out what happened, then complete, reexecute or park",
        )
}
