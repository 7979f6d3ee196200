//! `oncegate lookup`: shows what is known under a key. It confers nothing.

use clap::Args;

use super::args::RecordArgs;
use super::client::Client;
use super::exit::Exit;
use super::failure::Failure;
use super::output::Output;
use super::table::Sheet;
use super::{output, record};
use crate::proto::v1;

/// Show what is known under a key.
///
/// That there is no record is not the right to run anything: only `reserve` gives that.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  oncegate lookup ordre-10422 --namespace billing -o json")]
pub(crate) struct LookupArgs {
    /// Leave the payload out.
    #[arg(long)]
    without_payload: bool,

    #[command(flatten)]
    target: RecordArgs,
}

pub(crate) async fn lookup(args: LookupArgs, out: Output) -> Result<Exit, Failure> {
    let request = v1::LookupRequest {
        key: Some(args.target.record()?),
        without_payload: args.without_payload,
    };
    let client = Client::connect(&args.target.server).await?;
    let response = client.gate().lookup(client.request(request)).await?;
    out.answer(args.target.format.format, &response.into_inner(), |found| {
        found
            .record
            .as_ref()
            .map_or_else(Sheet::new, record::record)
    })?;
    Ok(Exit::Ok)
}

/// Which version of a record a person decides about: the one that they have seen, and no other.
#[derive(Debug, Args)]
pub(crate) struct SeenArgs {
    /// The record's etag as you saw it; without it the record is shown and you are asked.
    #[arg(long, value_name = "ETAG")]
    etag: Option<String>,

    /// Do not ask.
    #[arg(long, conflicts_with = "etag")]
    yes: bool,
}

impl SeenArgs {
    /// The etag given, or that of the record as it is now, shown on standard error and agreed to.
    pub(crate) async fn etag(
        self,
        client: &Client,
        key: &v1::RecordKey,
        question: &str,
    ) -> Result<String, Failure> {
        if let Some(given) = self.etag {
            return Ok(given);
        }
        if !self.yes && !output::interactive() {
            let problem = "nobody can be asked here, and neither --etag nor --yes is given";
            return Err(Failure::usage(problem)
                .hint("nothing was changed; look the record up and name its --etag"));
        }
        let request = v1::LookupRequest {
            key: Some(key.clone()),
            without_payload: true,
        };
        let response = client.gate().lookup(client.request(request)).await?;
        let Some(seen) = response.into_inner().record else {
            return Err(Failure::new(
                Exit::Failed,
                "the server's answer holds no record",
            ));
        };
        output::error_bytes(record::record(&seen).render(false).as_bytes());
        if self.yes || output::confirm(question)? {
            return Ok(seen.etag);
        }
        Err(Failure::new(
            Exit::Failed,
            "not confirmed: nothing was changed",
        ))
    }
}
