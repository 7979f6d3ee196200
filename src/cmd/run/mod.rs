//! `oncegate run`: gates a command. One caller runs it; everyone after gets its output and exit code.

mod child;
mod lease;
mod outcome;
mod pass;
mod report;
mod reserve;
mod signals;

use std::time::Duration;

use clap::Args;

use self::signals::Signals;
use super::args::{self, ServerArgs, TenancyArgs};
use super::client::Client;
use super::exit::Exit;
use super::failure::Failure;
use super::output;
use super::reserve::FingerprintArgs;
use crate::proto::v1;

/// From here on somebody who waits wants to know what for.
const SLOW: Duration = Duration::from_secs(1);

/// Run a command once per key, and replay its output and exit code to everyone after.
///
/// The first caller runs the command; while it runs, the right is renewed. A later call with the
/// same key does not run it: it prints what the first one printed and ends with its exit code. If
/// the server cannot be reached, nothing is run.
///
/// A command that was killed, or whose `oncegate run` was, may have done its work or not. The next
/// call says so, parks the record for a person and runs nothing; with --repeatable, it runs the
/// command again.
///
/// The command finds its fence in `ONCEGATE_FENCE`, and in `ONCEGATE_DOWNSTREAM_KEY` a key that is the
/// same at every attempt: send it to other services as their idempotency key.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  oncegate run --key \"backup-$(date +%F)\" -- ./backup.sh --all
  oncegate run --key ordre-10422 --fingerprint-file order.json --wait 1m -- ./send-invoice.sh order.json
  oncegate run --key \"sync-$(date +%FT%H)\" --repeatable -- rsync -a /srv/ backup:/srv/")]
pub(crate) struct RunArgs {
    /// The idempotency key: made of what the run is about, e.g. job and day, never of a random id.
    #[arg(long, value_name = "KEY")]
    key: String,

    /// What the effect is.
    #[arg(long, value_name = "NAME", default_value = "run")]
    operation: String,

    /// What the run is; without it, the command line itself.
    #[command(flatten)]
    fingerprint: FingerprintArgs,

    /// Running the command twice is harmless: after a crash it is run again.
    #[arg(long)]
    repeatable: bool,

    /// How long the right is held without a renewal; it is renewed three times as often.
    #[arg(long, value_name = "DURATION", value_parser = args::second_or_more, default_value = "60s")]
    lease: Duration,

    /// How long to wait for another call that runs the same command.
    #[arg(long, value_name = "DURATION", value_parser = args::duration, default_value = "0s")]
    wait: Duration,

    /// The most that is kept of standard output and standard error together, as it is stored.
    #[arg(long, value_name = "BYTES", default_value_t = 200 * 1024, value_parser = outcome::limit())]
    max_output: u32,

    /// How long to go on trying to report the end of the command to a server that does not answer.
    #[arg(long, value_name = "DURATION", value_parser = args::positive, default_value = "5m")]
    report_timeout: Duration,

    /// Who runs it, for support; the machine's name and the process id if not given.
    #[arg(long, value_name = "NAME")]
    holder: Option<String>,

    /// The command and its arguments.
    #[arg(required = true, last = true, value_name = "COMMAND")]
    command: Vec<std::ffi::OsString>,

    #[command(flatten)]
    tenancy: TenancyArgs,

    #[command(flatten)]
    server: ServerArgs,
}

/// One gated run: what all its steps share.
struct Run {
    client: Client,
    key: v1::RecordKey,
    args: RunArgs,
}

/// What a Reserve gave that leads on.
enum Reserved {
    /// The right to run the command.
    Held(lease::Held),
    /// The right to find out what became of an earlier run.
    Stranded(Box<v1::Recover>),
    /// The command has run: replay it.
    Replay(Box<v1::Replay>),
}

pub(crate) async fn run(args: RunArgs) -> Result<Exit, Failure> {
    let key = args.tenancy.record(&args.key)?;
    // Listening from here on: a signal that comes while the right is asked for must not leave a
    // record that looks as if the command had been started.
    let mut signals = Signals::listen()?;
    let client = tokio::select! {
        client = Client::connect(&args.server) => client?,
        Some(signal) = signals.next() => return Ok(signal.exit()),
    };
    let run = Run { client, key, args };
    let request = run.request()?;
    let verdict = tokio::select! {
        biased;
        verdict = run.reserve(request.clone()) => verdict?,
        Some(signal) = signals.next() => {
            let why = signal.before_start();
            given_back(run.withdraw(request, &why), &mut signals).await;
            return Ok(signal.exit());
        }
    };
    let held = match verdict {
        Reserved::Replay(found) => return replay(found, &mut signals).await,
        Reserved::Held(held) => held,
        Reserved::Stranded(found) => {
            if let Some(signal) = signals.pending() {
                let why = signal.before_start();
                given_back(run.release(reserve::token_of(&found), &why), &mut signals).await;
                return Ok(signal.exit());
            }
            run.recover(&found).await?
        }
    };
    run.execute(held, &mut signals).await
}

/// Waits until a right that was not used is given back, unless a second signal says that even this takes
/// too long.
async fn given_back(giving: impl Future<Output = ()>, signals: &mut Signals) {
    tokio::pin!(giving);
    if tokio::time::timeout(SLOW, &mut giving).await.is_ok() {
        return;
    }
    output::note(
        "giving the right back; the server does not answer yet: a second signal ends this",
    );
    tokio::select! {
        () = giving => {}
        Some(_) = signals.next() => output::note(report::NOT_GIVEN_BACK),
    }
}

/// Prints on a thread of its own, which is left behind if nobody reads and a signal ends the wait.
async fn replay(found: Box<v1::Replay>, signals: &mut Signals) -> Result<Exit, Failure> {
    let printed = tokio::task::spawn_blocking(move || outcome::replay(&found));
    tokio::select! {
        exit = printed => {
            exit.map_err(|error| Failure::new(Exit::Failed, error.to_string()))?
        }
        Some(signal) = signals.next() => Ok(signal.exit()),
    }
}

impl Run {
    async fn execute(&self, held: lease::Held, signals: &mut Signals) -> Result<Exit, Failure> {
        let token = held.token.clone();
        if let Some(signal) = signals.pending() {
            let why = signal.before_start();
            given_back(self.release(&token, &why), signals).await;
            return Ok(signal.exit());
        }
        let confirmed = held.confirmed(&self.client, &self.key, self.args.lease);
        let Some(held) = confirmed.await else {
            let what = "the right to run ended before the command was started; nothing was run";
            return Err(Failure::new(Exit::Stale, what));
        };
        let child = match child::spawn(&self.args, &held) {
            Ok(child) => child,
            Err(child::NotWatched::NotStarted(error)) => {
                return Ok(self.not_started(&token, &error).await);
            }
            Err(child::NotWatched::Lost(error)) => {
                let what = format!("the command was started and lost: {error}");
                let exit = report::parked_exit(self.park(&token, &what).await);
                return Err(Failure::new(exit, what).hint(self.resolve_hint()));
            }
        };
        let heartbeat = held.keep(self.client.clone(), self.key.clone(), self.args.lease);
        let finished = child.finish(signals).await;
        heartbeat.stop();
        let (finished, rest) = finished?;
        let exit = match finished.ended {
            child::Ended::Code(code) => {
                let outcome = outcome::of(code, &finished, self.args.max_output);
                let reported = self.report(&token, outcome, code, signals).await;
                reported.map(|()| Exit::Command(code))
            }
            child::Ended::Killed(signal) => Ok(self.killed(&token, signal, signals).await),
        };
        rest.until_read(signals).await;
        exit
    }

    /// The command was not started: provably nothing happened.
    async fn not_started(&self, token: &str, error: &std::io::Error) -> Exit {
        let name = self.args.command.first().map(|name| name.to_string_lossy());
        let problem = format!("{}: {error}", name.unwrap_or_default());
        output::note(&problem);
        self.release(token, &format!("the command could not be started: {error}"))
            .await;
        // As a shell does: not found, or found and not to be executed.
        if error.kind() == std::io::ErrorKind::NotFound {
            Exit::Command(127)
        } else {
            Exit::Command(126)
        }
    }

    /// The command was killed: what it did is not known, so nothing is completed.
    async fn killed(&self, token: &str, signal: i32, signals: &mut Signals) -> Exit {
        let what = format!("the command was killed by signal {signal}; what it did is not known");
        if self.args.repeatable {
            let next = "the next run starts it again, once the lease is out";
            output::note(&format!("{what}: {next}"));
            return signals::exit_of(signal);
        }
        let parked = tokio::select! {
            parked = self.park(token, &what) => parked,
            Some(_) = signals.next() => false,
        };
        if parked {
            output::note(&format!("{what}: the record is parked"));
            output::note(&self.resolve_hint());
        } else {
            output::note(&format!("{what}: the next run will park the record"));
        }
        signals::exit_of(signal)
    }

    fn resolve_hint(&self) -> String {
        format!(
            "find out, then: oncegate resolve {} --happened | --failed | --nothing-happened --reason …",
            self.args.key
        )
    }
}
