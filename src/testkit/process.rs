//! The program itself as a process: a server on free ports that lives as long as one test, and
//! commands against it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Output, Stdio};
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use super::net::{free_address, http_get};

/// How long a server may take until it is ready.
const READY_WITHIN: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);

/// A server on an embedded store in a folder of its own; killed when it is dropped.
#[derive(Debug)]
pub struct Server {
    program: PathBuf,
    folder: tempfile::TempDir,
    grpc: SocketAddr,
    http: SocketAddr,
    settings: Vec<(String, String)>,
    process: Option<Child>,
}

impl Server {
    /// Starts `program serve` and waits until it is ready.
    pub async fn start(program: impl Into<PathBuf>) -> Self {
        Self::start_with(program, &[]).await
    }

    /// As [`Server::start`], with more `ONCEGATE_…` settings.
    pub async fn start_with(program: impl Into<PathBuf>, settings: &[(&str, &str)]) -> Self {
        let mut server = Self::prepare(program, settings);
        server.launch().await;
        server
    }

    /// Everything but the process: nothing listens yet.
    pub fn prepare(program: impl Into<PathBuf>, settings: &[(&str, &str)]) -> Self {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Self {
            program: program.into(),
            folder: tempfile::tempdir().expect("a folder for the test"),
            grpc: free_address(),
            http: free_address(),
            settings: settings.iter().map(own).collect(),
            process: None,
        }
    }

    /// `program serve` on the ports and store of this server, not started yet.
    pub fn serving(&self) -> Command {
        let mut command = bare(&self.program);
        command
            .arg("serve")
            .env("ONCEGATE_DATABASE_URL", self.database_url())
            .env("ONCEGATE_LISTEN", self.grpc.to_string())
            .env("ONCEGATE_HTTP_LISTEN", self.http.to_string())
            .env("ONCEGATE_LOG", "warn")
            .envs(self.settings.iter().cloned())
            .stdin(Stdio::null());
        command
    }

    /// Starts the process on the same ports and store, and waits until it is ready.
    pub async fn launch(&mut self) {
        let process = self.serving().spawn().expect("the server starts");
        self.process = Some(process);
        let deadline = Instant::now() + READY_WITHIN;
        while !self.is_ready().await {
            let ended = self.process.as_mut().and_then(|it| it.try_wait().ok()?);
            assert!(ended.is_none(), "the server ended: {ended:?}");
            assert!(Instant::now() < deadline, "the server is not ready in time");
            sleep(POLL).await;
        }
    }

    /// Ends the process at once, as a power cut would.
    pub async fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().await.expect("the server can be killed");
        }
    }

    /// The process, while it runs.
    pub fn process_id(&self) -> Option<u32> {
        self.process.as_ref().and_then(Child::id)
    }

    /// Whether it says that it is ready.
    pub async fn is_ready(&self) -> bool {
        matches!(http_get(self.http, "/readyz").await, Ok((200, _)))
    }

    /// Where its store is.
    pub fn database_url(&self) -> String {
        format!("sqlite://{}", self.folder.path().join("gate.db").display())
    }

    /// Its gRPC address, as a client names it.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.grpc)
    }

    /// Its address for health, metrics and people.
    pub fn http_address(&self) -> SocketAddr {
        self.http
    }

    /// A folder that is gone with the server.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A client command against this server, not started yet.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = bare(&self.program);
        command
            .args(arguments)
            .env("ONCEGATE_ENDPOINT", self.endpoint())
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs a client command to its end.
    pub async fn run(&self, arguments: &[&str]) -> Ended {
        ended(&mut self.command(arguments)).await
    }
}

/// A command of this program that sees no settings of the machine that the tests run on.
pub fn bare(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("ONCEGATE_") {
            command.env_remove(name);
        }
    }
    command.env_remove("NO_COLOR").kill_on_drop(true);
    command
}

/// Runs a command to its end.
pub async fn ended(command: &mut Command) -> Ended {
    Ended::from(command.output().await.expect("the command starts"))
}

/// A command that has ended.
#[derive(Debug, Clone)]
pub struct Ended {
    /// Its exit code, or 128 and the signal that killed it.
    pub code: i32,
    /// What it wrote to standard output.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            code: code_of(output.status),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Ended {
    /// Fails the test unless it ended with this code.
    #[track_caller]
    pub fn expect(&self, code: i32) -> &Self {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }

    /// Its standard output as JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        let parsed = serde_json::from_str(&self.stdout);
        parsed.unwrap_or_else(|error| panic!("no JSON: {error}: {self:#?}"))
    }

    /// The value of a row of its table.
    #[track_caller]
    pub fn row(&self, name: &str) -> &str {
        let row = self.stdout.lines().find_map(|line| {
            let rest = line.strip_prefix(name)?;
            rest.starts_with("  ").then(|| rest.trim())
        });
        row.unwrap_or_else(|| panic!("no row {name}: {self:#?}"))
    }
}

fn code_of(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    let killed = || status.signal().map_or(-1, |signal| 128 + signal);
    status.code().unwrap_or_else(killed)
}

/// Waits until something is so, at most half a minute.
///
/// # Panics
///
/// It does not become so.
pub async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + READY_WITHIN;
    while !is_so() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        sleep(POLL).await;
    }
}
