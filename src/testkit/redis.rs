//! A Redis of a test's own, which it may kill, stop and fill as it likes.

mod cluster;
mod sentinel;

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use redis::FromRedisValue;
use redis::aio::MultiplexedConnection;
use tokio::time::{Instant, sleep};

pub use self::cluster::TempCluster;
pub use self::sentinel::TempSentinels;
use super::net::free_address;

/// How long it may take to start.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// How long several of them may take to agree.
const SETTLED_WITHIN: Duration = Duration::from_secs(90);

/// A Redis as a process; killed when it is dropped.
#[derive(Debug)]
pub struct TempRedis {
    address: SocketAddr,
    folder: tempfile::TempDir,
    arguments: Vec<String>,
    process: Option<Child>,
}

impl TempRedis {
    /// Nothing listens yet.
    pub fn prepare() -> Self {
        Self {
            address: free_address(),
            folder: tempfile::tempdir().expect("a folder for the test"),
            arguments: Vec::new(),
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
        let own = ["--save", "", "--appendonly", "no"];
        self.arguments = own
            .iter()
            .chain(arguments)
            .map(ToString::to_string)
            .collect();
        self.restart().await;
    }

    /// Starts it as a Sentinel that is told this.
    pub async fn launch_sentinel(&mut self, told: &str) {
        let file = self.folder.path().join("sentinel.conf");
        fs::write(&file, told).expect("the file is written");
        self.arguments = ["sentinel.conf", "--sentinel"].map(str::to_owned).into();
        self.restart().await;
    }

    /// Starts it as it was started before.
    pub async fn restart(&mut self) {
        let port = self.address.port().to_string();
        let process = Command::new("redis-server")
            .args(&self.arguments)
            .args(["--bind", "127.0.0.1", "--port", &port])
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

    /// Asks it something past the program.
    pub async fn ask<T: FromRedisValue>(&self, question: &[&str]) -> redis::RedisResult<T> {
        let mut connection = self.connect().await?;
        let (name, arguments) = question.split_first().expect("a command");
        let mut command = redis::cmd(name);
        command.arg(arguments).query_async(&mut connection).await
    }

    /// Asks it until it answers so, at most a minute and a half.
    async fn until<T: FromRedisValue>(&self, question: &[&str], is_so: impl Fn(T) -> bool) {
        let limit = Instant::now() + SETTLED_WITHIN;
        while !self.ask(question).await.is_ok_and(&is_so) {
            assert!(Instant::now() < limit, "not in time: {question:?}");
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Its address.
    pub const fn address(&self) -> SocketAddr {
        self.address
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
