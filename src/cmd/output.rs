//! Where a command writes: data to standard output, everything else to standard error.

use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::mpsc;
use std::time::Duration;

use super::failure::Failure;
use super::table::Sheet;
use super::{json, text};

/// How long standard error may take one message. It may be a pipe that nobody reads, and what is told
/// there is never worth what waits behind it.
const TOLD_WITHIN: Duration = Duration::from_secs(1);

/// How data is shown: to people, or to programs as one line of protobuf JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Format {
    #[default]
    Table,
    Json,
}

/// When colours are used. `Auto`: on a terminal, unless `NO_COLOR` is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum ColorChoice {
    #[default]
    Auto,
    Always,
    Never,
}

/// What a colour says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Wait,
    Bad,
}

/// The two standard streams of this process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    color_out: bool,
    color_err: bool,
}

impl Output {
    pub(crate) fn new(color: ColorChoice) -> Self {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let on = |terminal: bool| match color {
            ColorChoice::Auto => terminal && !unwanted,
            ColorChoice::Always => true,
            ColorChoice::Never => false,
        };
        Self {
            color_out: on(io::stdout().is_terminal()),
            color_err: on(io::stderr().is_terminal()),
        }
    }

    /// Shows an answer of the server, as a table made of it or as its JSON.
    pub(crate) fn answer<M: json::Named>(
        self,
        format: Format,
        message: &M,
        sheet: impl FnOnce(&M) -> Sheet,
    ) -> Result<(), Failure> {
        let shown = match format {
            Format::Table => sheet(message).render(self.color_out),
            Format::Json => json::line(message)?,
        };
        data(shown.as_bytes())
    }

    /// Shows what is no message of the protocol: as its text, or as its JSON on one line.
    pub(crate) fn own(
        self,
        format: Format,
        json: &serde_json::Value,
        text: impl FnOnce(bool) -> String,
    ) -> Result<(), Failure> {
        let shown = match format {
            Format::Table => text(self.color_out),
            Format::Json => format!("{json}\n"),
        };
        data(shown.as_bytes())
    }

    /// Tells on standard error why the command failed.
    pub(crate) fn failure(self, failure: &Failure) {
        let mut shown = paint(self.color_err, Tone::Bad, "error:");
        for (at, line) in failure.lines.iter().enumerate() {
            let indent = if at == 0 { " " } else { "  " };
            shown = format!("{shown}{indent}{}\n", text::one_line(line));
        }
        tell(shown);
    }
}

/// Writes bytes as they are. A reader that has left wants no more: that is no error.
pub(crate) fn data(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(|error| Failure::from(error).within("standard output")),
    }
}

/// Tells something on standard error. If nobody can read it, the work goes on.
pub(crate) fn note(message: &str) {
    tell(format!("oncegate: {}\n", text::one_line(message)));
}

/// Writes to standard error on a thread of its own, which is left behind if nobody reads.
fn tell(shown: String) {
    let (told, done) = mpsc::channel();
    std::thread::spawn(move || {
        drop(io::stderr().lock().write_all(shown.as_bytes()));
        told.send(()).ok();
    });
    done.recv_timeout(TOLD_WITHIN).ok();
}

/// Writes bytes to standard error as they are.
pub(crate) fn error_bytes(bytes: &[u8]) {
    drop(io::stderr().lock().write_all(bytes));
}

/// Whether somebody can be asked.
pub(crate) fn interactive() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks a question that only `yes` affirms.
pub(crate) fn confirm(question: &str) -> Result<bool, Failure> {
    let shown = text::one_line(question);
    write!(io::stderr().lock(), "{shown} Type yes to go on: ")?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(answer.trim() == "yes")
}

/// Puts a colour around a text, or leaves it as it is.
pub(crate) fn paint(color: bool, tone: Tone, text: &str) -> String {
    let code = match tone {
        Tone::Good => "32",
        Tone::Wait => "33",
        Tone::Bad => "31",
    };
    if color {
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    } else {
        text.to_owned()
    }
}
