//! `oncegate audit`: what was done to a record outside its holders' normal calls.

use clap::{Args, Subcommand};

use super::args::RecordArgs;
use super::client::Client;
use super::exit::Exit;
use super::failure::Failure;
use super::output::Output;
use super::table::Sheet;
use super::{record, text};
use crate::proto::v1;

/// Entries asked for at once.
const PAGE: i32 = 1000;

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    List(ListArgs),
}

/// List what was done to a record outside its holders' normal calls, oldest first.
///
/// Each Expire, Resolve and Reexecute is there: when, by whom, and why. Nothing is ever changed in it.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  oncegate audit list ordre-10422 --namespace billing -o json")]
pub(crate) struct ListArgs {
    #[command(flatten)]
    target: RecordArgs,
}

pub(crate) async fn audit(command: AuditCommand, out: Output) -> Result<Exit, Failure> {
    let AuditCommand::List(args) = command;
    let key = args.target.record()?;
    let client = Client::connect(&args.target.server).await?;
    let mut all = v1::ListAuditResponse::default();
    let mut page_token = String::new();
    loop {
        let request = v1::ListAuditRequest {
            key: Some(key.clone()),
            page_size: PAGE,
            page_token,
        };
        let page = client.support().list_audit(client.request(request)).await?;
        let page = page.into_inner();
        all.entries.extend(page.entries);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    out.answer(args.target.format.format, &all, sheet)?;
    Ok(Exit::Ok)
}

fn sheet(found: &v1::ListAuditResponse) -> Sheet {
    let head = [
        "ID", "AT", "ACTION", "BY", "FENCE", "BEFORE", "AFTER", "WHY",
    ];
    found
        .entries
        .iter()
        .fold(Sheet::new().columns(&head), |rows, entry| {
            let action = entry.action().as_str_name();
            rows.columns(&[
                &entry.id.to_string(),
                &text::time(entry.at.as_ref()),
                &text::enum_name(action, "AUDIT_ACTION_"),
                &entry.actor,
                &entry.fence.to_string(),
                &record::state_name(entry.state_before()),
                &record::state_name(entry.state_after()),
                &entry.reason,
            ])
        })
}
