//! The command line: parses arguments, runs one command, ends with its exit code. The only place
//! that knows every other; no rule about records is decided here.

mod args;
mod audit;
mod client;
mod complete;
mod doctor;
mod exit;
mod expire;
mod failure;
mod holder;
mod json;
mod key;
mod lookup;
mod migrate;
mod namespace;
mod output;
mod record;
mod reserve;
mod resolve;
mod run;
pub mod serve;
mod table;
mod text;
mod unreached;
mod verdict;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use self::exit::Exit;
use self::failure::Failure;
use self::output::{ColorChoice, Output};

/// Lets any side effect happen once: a gate in front of payments, bookings, jobs and messages.
///
/// Start a server with `oncegate serve`. Then gate a command:
///
///   oncegate run --key "backup-$(date +%F)" -- ./backup.sh
///
/// Run it again, here or on another machine: the command does not run twice, and its output and
/// exit code are replayed.
#[derive(Debug, Parser)]
#[command(
    name = "oncegate",
    version,
    about,
    verbatim_doc_comment,
    after_help = "Data goes to standard output, everything else to standard error.\n\
                  docs/cli.md lists the exit codes and has a walk through every command."
)]
struct Cli {
    /// When to use colours; auto: on a terminal, unless `NO_COLOR` is set.
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    color: ColorChoice,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start the server; without any settings on an embedded store.
    Serve(serve::ServeArgs),
    Run(run::RunArgs),
    Reserve(reserve::ReserveArgs),
    Complete(complete::CompleteArgs),
    Renew(holder::RenewArgs),
    Release(holder::ReleaseArgs),
    Reexecute(holder::ReexecuteArgs),
    Park(holder::ParkArgs),
    Lookup(lookup::LookupArgs),
    Expire(expire::ExpireArgs),
    Resolve(resolve::ResolveArgs),
    /// Show what was done to records, and by whom.
    #[command(subcommand)]
    Audit(audit::AuditCommand),
    /// Create, show, list and change namespaces.
    #[command(subcommand)]
    Namespace(namespace::NamespaceCommand),
    /// Make keys.
    #[command(subcommand)]
    Key(key::KeyCommand),
    Migrate(migrate::MigrateArgs),
    Doctor(doctor::DoctorArgs),
    Completions(CompletionsArgs),
}

/// Print the completion script of a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  oncegate completions bash > ~/.local/share/bash-completion/completions/oncegate")]
struct CompletionsArgs {
    /// Which shell.
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

/// Runs the command that the arguments name.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help on standard output, a wrong argument on standard error; if neither can be
            // written, nobody is left to be told.
            drop(error.print());
            return u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from);
        }
    };
    let out = Output::new(cli.color);
    match execute(cli.command, out) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            out.failure(&failure);
            failure.exit.into()
        }
    }
}

fn execute(command: Command, out: Output) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Runtime::new()?;
    let exit = runtime.block_on(dispatch(command, out));
    // A read of standard input cannot be cancelled: do not wait for one.
    runtime.shutdown_background();
    exit
}

async fn dispatch(command: Command, out: Output) -> Result<Exit, Failure> {
    match command {
        Command::Serve(args) => {
            Box::pin(serve::serve(args)).await?;
            Ok(Exit::Ok)
        }
        Command::Run(args) => Box::pin(run::run(args)).await,
        Command::Reserve(args) => reserve::reserve(args, out).await,
        Command::Complete(args) => complete::complete(args, out).await,
        Command::Renew(args) => holder::renew(args, out).await,
        Command::Release(args) => holder::release(args, out).await,
        Command::Reexecute(args) => holder::reexecute(args, out).await,
        Command::Park(args) => holder::park(args, out).await,
        Command::Lookup(args) => lookup::lookup(args, out).await,
        Command::Expire(args) => expire::expire(args, out).await,
        Command::Resolve(args) => resolve::resolve(args, out).await,
        Command::Audit(command) => audit::audit(command, out).await,
        Command::Namespace(command) => Box::pin(namespace::namespace(command, out)).await,
        Command::Key(command) => key::key(&command, out),
        Command::Migrate(args) => migrate::migrate(args, out).await,
        Command::Doctor(args) => Box::pin(doctor::doctor(args, out)).await,
        Command::Completions(args) => completions(&args),
    }
}

fn completions(args: &CompletionsArgs) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "oncegate", &mut script);
    output::data(&script)?;
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_do_not_contradict_each_other() {
        Cli::command().debug_assert();
    }

    /// Every command that does something, by its words, e.g. `key derive`.
    fn commands() -> Vec<(String, clap::Command)> {
        let mut root = Cli::command();
        root.build();
        let mut open = vec![(String::new(), root)];
        let mut found = Vec::new();
        while let Some((words, command)) = open.pop() {
            let before = open.len();
            for inner in command.get_subcommands() {
                let name = inner.get_name();
                if name != "help" {
                    let words = format!("{words} {name}").trim().to_owned();
                    open.push((words, inner.clone()));
                }
            }
            if open.len() == before {
                found.push((words, command));
            }
        }
        found
    }

    #[test]
    fn every_command_has_an_example_in_its_help() {
        for (words, mut command) in commands() {
            let help = command.render_long_help().to_string();
            let has = help.contains("Example") || words == "serve";
            assert!(has, "{words} has no example:\n{help}");
        }
    }

    #[test]
    fn every_command_and_option_stands_in_the_manual() {
        let manual = include_str!("../../docs/cli.md");
        let section = |heading: &str| {
            let (_, from) = manual.split_once(&format!("\n{heading}\n"))?;
            from.split("\n##").next()
        };
        let names = |text: &str, option: &str| {
            let mut words = text.split(|c: char| c != '-' && !c.is_ascii_alphanumeric());
            words.any(|word| word == option)
        };
        let shared = section("## Which server, which record").expect("is there");
        for (words, command) in commands() {
            let own = section(&format!("### `oncegate {words}`"));
            assert!(own.is_some(), "docs/cli.md has no section {words}");
            let own = own.unwrap_or_default();
            for option in command.get_arguments().filter_map(clap::Arg::get_long) {
                let option = format!("--{option}");
                let is_there = names(own, &option) || names(shared, &option);
                assert!(is_there, "docs/cli.md: {words} lacks {option}");
            }
        }
    }
}
