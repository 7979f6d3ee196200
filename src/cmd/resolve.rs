//! `oncegate resolve`: a person decides about a parked record.

use clap::Args;

use super::args::{self, RecordArgs};
use super::client::Client;
use super::complete::OutcomeArgs;
use super::exit::Exit;
use super::failure::Failure;
use super::lookup::SeenArgs;
use super::output::Output;
use super::record;
use super::table::Sheet;
use crate::proto::v1;
use crate::proto::v1::resolve_request::Resolution;

/// Decide about a parked record.
///
/// Find out first what happened on the other side. --happened and --failed record the outcome for
/// good; --nothing-happened approves one more run, which the next caller gets.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  oncegate resolve ordre-10422 --happened --effect-id invoice-4711 --reason 'found in the ledger'
  oncegate resolve ordre-10422 --nothing-happened --reason 'the bank confirmed: no such transfer'")]
pub(crate) struct ResolveArgs {
    #[command(flatten)]
    finding: Finding,

    /// Why; it is kept in the audit trail.
    #[arg(long, value_name = "TEXT", value_parser = args::reason)]
    reason: String,

    #[command(flatten)]
    seen: SeenArgs,

    #[command(flatten)]
    outcome: OutcomeArgs,

    #[command(flatten)]
    target: RecordArgs,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Finding {
    /// It happened.
    #[arg(long)]
    happened: bool,

    /// It was tried and failed for good; that is what later callers get.
    #[arg(long)]
    failed: bool,

    /// It did not happen, and nothing sent earlier can still arrive.
    #[arg(long)]
    nothing_happened: bool,
}

impl ResolveArgs {
    fn resolution(&mut self) -> Result<Resolution, Failure> {
        let outcome = std::mem::take(&mut self.outcome);
        if self.finding.nothing_happened {
            if !outcome.is_empty() {
                let problem = "--nothing-happened has no outcome: leave payload and ids away";
                return Err(Failure::usage(problem));
            }
            return Ok(Resolution::NothingHappened(v1::NothingHappened {}));
        }
        let status = if self.finding.failed {
            v1::OutcomeStatus::Failed
        } else {
            v1::OutcomeStatus::Succeeded
        };
        Ok(Resolution::Happened(outcome.outcome(status)?))
    }
}

pub(crate) async fn resolve(mut args: ResolveArgs, out: Output) -> Result<Exit, Failure> {
    let key = args.target.record()?;
    let resolution = args.resolution()?;
    let client = Client::connect(&args.target.server).await?;
    let question = "Decide about this record?";
    let etag = args.seen.etag(&client, &key, question).await?;
    let request = v1::ResolveRequest {
        key: Some(key),
        etag,
        reason: args.reason,
        resolution: Some(resolution),
    };
    let response = client.support().resolve(client.request(request)).await?;
    out.answer(args.target.format.format, &response.into_inner(), |found| {
        found
            .record
            .as_ref()
            .map_or_else(Sheet::new, record::record)
    })?;
    Ok(Exit::Ok)
}
