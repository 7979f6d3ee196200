//! `oncegate renew`, `release`, `reexecute` and `park`: what a holder does besides completing.

use std::time::Duration;

use clap::Args;

use super::args::{self, RecordArgs};
use super::client::{self, Client};
use super::exit::Exit;
use super::failure::Failure;
use super::output::{Output, Tone};
use super::reserve::told;
use super::table::Sheet;
use super::{record, text, verdict};
use crate::proto::v1;
use crate::proto::v1::reexecute_response::Verdict;

/// The right that a command speaks for.
#[derive(Debug, Args)]
struct HeldArgs {
    /// The reservation's token, as `reserve` printed it.
    #[arg(long, value_name = "TOKEN")]
    token: String,

    #[command(flatten)]
    target: RecordArgs,
}

/// Extend a lease.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  oncegate renew ordre-10422 --token \"$TOKEN\" --lease 5m")]
pub(crate) struct RenewArgs {
    /// How long from now; the namespace's default if not given.
    #[arg(long, value_name = "DURATION", value_parser = args::second_or_more)]
    lease: Option<Duration>,

    #[command(flatten)]
    held: HeldArgs,
}

/// Give the right back: provably nothing happened under this token.
///
/// After a time-out or any other doubt, do not release: park, or let the lease run out.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  oncegate release ordre-10422 --token \"$TOKEN\" --reason 'the order was cancelled before sending'")]
pub(crate) struct ReleaseArgs {
    /// Why, for support.
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    reason: String,

    #[command(flatten)]
    held: HeldArgs,
}

/// After RECOVER: ask for the right to run the effect again.
///
/// You have found out that it did not happen. Whether it is granted depends on the effect class.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  oncegate reexecute ordre-10422 --token \"$TOKEN\"")]
pub(crate) struct ReexecuteArgs {
    /// How long the right is held without a renewal; the namespace's default if not given.
    #[arg(long, value_name = "DURATION", value_parser = args::second_or_more)]
    lease: Option<Duration>,

    /// QUERYABLE: the look-up began after an answer that said settled.
    #[arg(long)]
    settled_seen: bool,

    /// To repeat a call whose answer was lost: the 32 hexadecimal digits that it was made with.
    #[arg(long, value_name = "HEX", value_parser = args::request_id)]
    request_id: Option<[u8; 16]>,

    #[command(flatten)]
    held: HeldArgs,
}

/// Hand a record to a person: nobody can tell what happened.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  oncegate park ordre-10422 --token \"$TOKEN\" --note 'the bank timed out, reference 55-81'")]
pub(crate) struct ParkArgs {
    /// What the person should know.
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    note: String,

    #[command(flatten)]
    held: HeldArgs,
}

/// Shows whether the token still counted, and ends accordingly.
fn held_or_stale(name: &str, held: bool, state: v1::RecordState) -> (Sheet, Exit) {
    let (shown, tone, exit) = if held {
        ("yes", Tone::Good, Exit::Ok)
    } else {
        ("no", Tone::Bad, Exit::Stale)
    };
    let sheet = record::state(Sheet::new().toned(name, shown, tone), state);
    if held {
        return (sheet, exit);
    }
    let meaning = "the token is no longer the current one: start no new effect";
    (sheet.row("meaning", meaning), exit)
}

pub(crate) async fn renew(args: RenewArgs, out: Output) -> Result<Exit, Failure> {
    let request = v1::RenewRequest {
        key: Some(args.held.target.record()?),
        token: args.held.token,
        lease: args.lease.map(text::to_proto),
    };
    let client = Client::connect(&args.held.target.server).await?;
    let response = client.gate().renew(client.request(request)).await?;
    let response = response.into_inner();
    let (sheet, exit) = held_or_stale("held", response.held, response.state());
    let sheet = if response.held {
        sheet.row("lease", text::proto_span(response.lease_remaining.as_ref()))
    } else {
        sheet
    };
    out.answer(args.held.target.format.format, &response, |_| sheet)?;
    Ok(exit)
}

pub(crate) async fn release(args: ReleaseArgs, out: Output) -> Result<Exit, Failure> {
    let request = v1::ReleaseRequest {
        key: Some(args.held.target.record()?),
        token: args.held.token,
        reason: args.reason,
    };
    let client = Client::connect(&args.held.target.server).await?;
    let response = client.gate().release(client.request(request)).await?;
    let response = response.into_inner();
    let (sheet, exit) = held_or_stale("released", response.released, response.state());
    out.answer(args.held.target.format.format, &response, |_| sheet)?;
    Ok(exit)
}

pub(crate) async fn park(args: ParkArgs, out: Output) -> Result<Exit, Failure> {
    let request = v1::ParkRequest {
        key: Some(args.held.target.record()?),
        token: args.held.token,
        note: args.note,
    };
    let client = Client::connect(&args.held.target.server).await?;
    let response = client.gate().park(client.request(request)).await?;
    let response = response.into_inner();
    let (sheet, exit) = held_or_stale("parked", response.parked, response.state());
    out.answer(args.held.target.format.format, &response, |_| sheet)?;
    Ok(exit)
}

pub(crate) async fn reexecute(args: ReexecuteArgs, out: Output) -> Result<Exit, Failure> {
    let request = v1::ReexecuteRequest {
        key: Some(args.held.target.record()?),
        token: args.held.token,
        lease: args.lease.map(text::to_proto),
        request_id: match args.request_id {
            Some(given) => given.to_vec(),
            None => client::request_id()?.to_vec(),
        },
        settled_seen: args.settled_seen,
    };
    let client = Client::connect(&args.held.target.server).await?;
    let response = client.gate().reexecute(client.request(request)).await?;
    let response = response.into_inner();
    let (sheet, exit) = judge(&response)?;
    out.answer(args.held.target.format.format, &response, |_| sheet)?;
    Ok(exit)
}

fn judge(response: &v1::ReexecuteResponse) -> Result<(Sheet, Exit), Failure> {
    let named = |name, tone| Sheet::new().toned("verdict", name, tone);
    Ok(
        match response.verdict.as_ref().ok_or_else(verdict::unknown)? {
            Verdict::Granted(held) => {
                let sheet = record::reservation(named("GRANTED", Tone::Good), held);
                (sheet, Exit::Ok)
            }
            Verdict::TooEarly(found) => {
                let next = if found.look_again {
                    "look again, then ask with --settled-seen"
                } else {
                    "wait until it is settled, look, then ask with --settled-seen"
                };
                let sheet = named("TOO_EARLY", Tone::Wait)
                    .row(
                        "settled in",
                        text::proto_span(found.settle_remaining.as_ref()),
                    )
                    .row("next", next);
                (sheet, Exit::InProgress)
            }
            Verdict::Parked(found) => {
                let sheet = told(named("PARKED", Tone::Bad), &verdict::parked(found));
                (sheet, Exit::Parked)
            }
            Verdict::Superseded(found) => {
                let sheet = record::state(named("SUPERSEDED", Tone::Bad), found.state());
                let meaning = "the token is no longer the current one: run nothing";
                (sheet.row("meaning", meaning), Exit::Stale)
            }
        },
    )
}
