//! The program itself as a process: a server on free ports that lives as long as one test, and
//! commands against it.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

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

    /// Starts the process on the same ports and store, and waits until it is ready.
    pub async fn launch(&mut self) {
        let process = bare(&self.program)
            .arg("serve")
            .env("ONCEGATE_DATABASE_URL", self.database_url())
            .env("ONCEGATE_LISTEN", self.grpc.to_string())
            .env("ONCEGATE_HTTP_LISTEN", self.http.to_string())
            .env("ONCEGATE_LOG", "warn")
            .envs(self.settings.iter().cloned())
            .stdin(Stdio::null())
            .spawn()
            .expect("the server starts");
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

    async fn is_ready(&self) -> bool {
        matches!(get(self.http, "/readyz").await, Ok(200))
    }

    /// Where its store is.
    pub fn database_url(&self) -> String {
        format!("sqlite://{}", self.folder.path().join("gate.db").display())
    }

    /// Its gRPC address, as a client names it.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.grpc)
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

/// A port that nothing listens on, below those that the system gives to outgoing connections: one
/// of these could take it before the server does.
fn free_address() -> SocketAddr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let at = NEXT.fetch_add(1, Ordering::Relaxed);
        // Other test runs on this machine begin elsewhere.
        let begin = std::process::id().wrapping_mul(61);
        let port = 10_000 + begin.wrapping_add(at) % 20_000;
        let port = u16::try_from(port).expect("below 30,000");
        if let Ok(probe) = TcpListener::bind(("127.0.0.1", port)) {
            return probe.local_addr().expect("its address");
        }
    }
}

/// The status of a GET.
async fn get(address: SocketAddr, path: &str) -> io::Result<u16> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer);
    let status = answer.split(' ').nth(1).and_then(|it| it.parse().ok());
    status.ok_or_else(|| io::ErrorKind::InvalidData.into())
}
