//! `oncegate expire`: ends a completed record's protection before its retention does.

use clap::Args;

use super::args::{self, RecordArgs};
use super::client::Client;
use super::exit::Exit;
use super::failure::Failure;
use super::lookup::SeenArgs;
use super::output::Output;
use super::table::Sheet;
use super::{record, text};
use crate::proto::v1;

/// End a completed record's protection early.
///
/// Without --allow-rerun later calls get EXPIRED. With it the key may be used again, as a new
/// operation. Only a completed record can be expired; what is running never is.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  oncegate expire ordre-10422 --reason 'invoice 4711 was voided' --allow-rerun
  oncegate expire ordre-10422 --reason 'wrong amount' --etag \"$ETAG\"")]
pub(crate) struct ExpireArgs {
    /// Why; it is kept in the audit trail.
    #[arg(long, value_name = "TEXT", value_parser = args::reason)]
    reason: String,

    /// Let the key be used again, as a new operation.
    #[arg(long)]
    allow_rerun: bool,

    #[command(flatten)]
    seen: SeenArgs,

    #[command(flatten)]
    target: RecordArgs,
}

pub(crate) async fn expire(args: ExpireArgs, out: Output) -> Result<Exit, Failure> {
    let key = args.target.record()?;
    let client = Client::connect(&args.target.server).await?;
    let question = if args.allow_rerun {
        "Let this key run again?"
    } else {
        "End this record's protection?"
    };
    let etag = args.seen.etag(&client, &key, question).await?;
    let request = v1::ExpireRequest {
        key: Some(key),
        reason: args.reason,
        allow_rerun: args.allow_rerun,
        etag,
    };
    let response = client.gate().expire(client.request(request)).await?;
    out.answer(args.target.format.format, &response.into_inner(), |found| {
        let sheet = found
            .record
            .as_ref()
            .map_or_else(Sheet::new, record::record);
        match &found.reopens_in {
            Some(left) => sheet.row("reopens in", text::proto_span(Some(left))),
            None => sheet,
        }
    })?;
    Ok(Exit::Ok)
}
