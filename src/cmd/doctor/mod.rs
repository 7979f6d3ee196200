//! `oncegate doctor`: looks whether store and server are in order, and says what to do. It changes
//! nothing.

mod server;
mod store;

use clap::Args;

use super::args::{FormatArgs, ServerArgs, TenancyArgs};
use super::exit::Exit;
use super::failure::Failure;
use super::migrate::StoreArgs;
use super::output::{Output, Tone};
use super::table::Sheet;

/// Look whether store and server are in order, and say what to do.
///
/// Looks at the store: reachable, schema, isolation and durability settings, writable, clock; and at
/// the server: reachable, ready, token accepted. Nothing is changed. Ends with 1 if there is a
/// problem.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  oncegate doctor
  ONCEGATE_DATABASE_URL=postgres://oncegate@db/oncegate oncegate doctor --endpoint http://gate:7011")]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    format: FormatArgs,

    #[command(flatten)]
    tenancy: TenancyArgs,

    #[command(flatten)]
    server: ServerArgs,
}

/// One thing that was looked at.
#[derive(Debug, PartialEq, Eq)]
struct Check {
    name: &'static str,
    ok: bool,
    found: String,
    /// What to do about a problem.
    advice: String,
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self {
            name,
            ok: true,
            found: found.into(),
            advice: String::new(),
        }
    }

    fn problem(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            name,
            ok: false,
            found: found.into(),
            advice: advice.into(),
        }
    }
}

pub(crate) async fn doctor(args: DoctorArgs, out: Output) -> Result<Exit, Failure> {
    let mut checks = store::look(&args.store).await?;
    checks.extend(server::look(&args.server, &args.tenancy).await?);
    let problems = checks.iter().filter(|check| !check.ok).count();
    let shown = |color| sheet(&checks).render(color);
    out.own(args.format.format, &json(&checks), shown)?;
    if problems == 0 {
        return Ok(Exit::Ok);
    }
    Err(Failure::new(
        Exit::Failed,
        format!("problems found: {problems}"),
    ))
}

fn sheet(checks: &[Check]) -> Sheet {
    let mut sheet = Sheet::new();
    for check in checks {
        sheet = if check.ok {
            sheet.columns(&["OK", check.name, &check.found])
        } else {
            sheet.columns(&["PROBLEM", check.name, &check.found])
        };
        if !check.advice.is_empty() {
            sheet = sheet.columns(&["", "", &format!("→ {}", check.advice)]);
        }
    }
    sheet
        .leading("OK", Tone::Good)
        .leading("PROBLEM", Tone::Bad)
}

fn json(checks: &[Check]) -> serde_json::Value {
    let checks: Vec<_> = checks
        .iter()
        .map(|check| {
            serde_json::json!({
                "name": check.name,
                "ok": check.ok,
                "found": check.found,
                "advice": check.advice,
            })
        })
        .collect();
    serde_json::json!({ "checks": checks })
}
