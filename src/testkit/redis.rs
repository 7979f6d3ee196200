//! A Redis of a test's own, which it may kill, stop and fill as it likes.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::time::{Instant, sleep};

use super::net::free_address;

/// How long it may take to start.
const READY_WITHIN: Duration = Duration::from_secs(10);

/// A Redis as a process; killed when it is dropped.
#[derive(Debug)]
pub struct TempRedis {
    address: SocketAddr,
    folder: tempfile::TempDir,
    process: Option<Child>,
}

impl TempRedis {
    /// Nothing listens yet.
    pub fn prepare() -> Self {
        Self {
            address: free_address(),
            folder: tempfile::tempdir().expect("a folder for the test"),
            process: None,
        }
    }

    /// Starts it.
    pub async fn start() -> Self {
        let mut redis = Self::prepare();
        redis.launch(&[]).await;
        redis
    }

    /// Starts it on its port, with these arguments more.
    pub async fn launch(&mut self, arguments: &[&str]) {
        let port = self.address.port().to_string();
        let process = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &port])
            .args(["--save", "", "--appendonly", "no"])
            .args(arguments)
            .current_dir(self.folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server is installed");
        self.process = Some(process);
        let limit = Instant::now() + READY_WITHIN;
        while self.connect().await.is_err() {
            assert!(Instant::now() < limit, "redis-server does not start");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Where it keeps what it keeps.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A connection past the program.
    ///
    /// # Errors
    ///
    /// It does not answer.
    pub async fn connect(&self) -> redis::RedisResult<MultiplexedConnection> {
        let client = redis::Client::open(self.url())?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        redis::cmd("PING")
            .query_async::<()>(&mut connection)
            .await?;
        Ok(connection)
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().expect("it can be killed");
            process.wait().expect("it ends");
        }
    }

    /// Lets it hang.
    pub fn hang(&self) {
        self.signal(rustix::process::Signal::STOP);
    }

    /// Lets it go on.
    pub fn go_on(&self) {
        self.signal(rustix::process::Signal::CONT);
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let process = self.process.as_ref().expect("it runs");
        let id = i32::try_from(process.id()).ok();
        let id = id.and_then(rustix::process::Pid::from_raw).expect("an id");
        rustix::process::kill_process(id, signal).expect("it can be signalled");
    }
}

impl Drop for TempRedis {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            // It may have ended by itself.
            let _ended = (process.kill(), process.wait());
        }
    }
}
