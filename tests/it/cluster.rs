//! A Postgres server of a test's own, that may be made read-only, turned into a standby and
//! promoted without disturbing any other test.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use oncegate::testkit::net::free_address;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use tokio::time::{Instant, sleep};

use crate::rig::number;

/// The programs of every supported server, by the variable that holds their folder.
pub(crate) const PROGRAMS: [&str; 2] = ["ONCEGATE_TEST_PG_BIN_15", "ONCEGATE_TEST_PG_BIN_18"];

/// A server in a folder of its own. Stopped, and its folder removed, when it is dropped.
pub(crate) struct Cluster {
    programs: PathBuf,
    folder: PathBuf,
    port: u16,
}

impl Cluster {
    /// Makes and starts one of the version whose programs the variable names.
    pub(crate) fn start(variable: &str) -> Self {
        let programs = PathBuf::from(variable_of(variable));
        let cluster = Self {
            programs,
            folder: unprivileged_folder("cluster"),
            port: free_address().port(),
        };
        let data = cluster.data();
        cluster.program(
            "initdb",
            &[
                "-D", &data, "-U", "oncegate", "-A", "trust", "-N", "-E", "UTF8",
            ],
        );
        cluster.begin();
        cluster
    }

    /// Where it listens; whoever connects from this machine may do everything.
    pub(crate) fn url(&self) -> String {
        format!("postgres://oncegate@127.0.0.1:{}/postgres", self.port)
    }

    /// Runs statements, each on its own.
    pub(crate) async fn run(&self, statements: &[&str]) {
        let mut connection = PgConnection::connect(&self.url())
            .await
            .expect("the server answers");
        for statement in statements {
            let statement = AssertSqlSafe((*statement).to_owned());
            connection
                .execute(statement)
                .await
                .expect("the statement is carried out");
        }
    }

    /// How often its sessions have flushed the write-ahead log. A session reports what it counted
    /// when it ends.
    pub(crate) async fn wal_flushes(&self) -> i64 {
        let mut sql = PgConnection::connect(&self.url())
            .await
            .expect("the server answers");
        let version = "SELECT current_setting('server_version_num')::int8";
        // Since 18 it is known who flushed; before, the server's own processes count too.
        let flushes = if number(&mut sql, version).await >= 180_000 {
            "SELECT coalesce(sum(fsyncs), 0)::int8 FROM pg_stat_io \
             WHERE object = 'wal' AND backend_type = 'client backend'"
        } else {
            "SELECT wal_sync FROM pg_stat_wal"
        };
        number(&mut sql, flushes).await
    }

    /// Waits until that many flushes are reported.
    pub(crate) async fn has_flushed(&self, wanted: i64) {
        let limit = Instant::now() + Duration::from_secs(10);
        loop {
            let found = self.wal_flushes().await;
            if found >= wanted {
                return;
            }
            assert!(Instant::now() < limit, "{found} flushes, not {wanted}");
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Starts it again as a standby, which reads and does not write.
    pub(crate) fn demote(&self) {
        self.end("fast");
        let signal = format!("{}/standby.signal", self.data());
        printed(&mut unprivileged("touch", &[&signal]));
        self.begin();
    }

    /// Makes the standby a primary.
    pub(crate) fn promote(&self) {
        self.program("pg_ctl", &["promote", "-D", &self.data(), "-w", "-t", "30"]);
    }

    fn begin(&self) {
        // No socket in the file system: its path may be too long for one.
        let options = format!(
            "-p {} -c listen_addresses=127.0.0.1 -c unix_socket_directories=",
            self.port
        );
        let log = self.folder.join("log").display().to_string();
        self.program(
            "pg_ctl",
            &[
                "start",
                "-D",
                &self.data(),
                "-l",
                &log,
                "-w",
                "-t",
                "30",
                "-o",
                &options,
            ],
        );
    }

    fn end(&self, mode: &str) {
        self.program(
            "pg_ctl",
            &["stop", "-D", &self.data(), "-m", mode, "-w", "-t", "30"],
        );
    }

    fn data(&self) -> String {
        self.folder.join("data").display().to_string()
    }

    fn program(&self, name: &str, arguments: &[&str]) {
        printed(&mut unprivileged(self.programs.join(name), arguments));
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.end("immediate");
        printed(&mut unprivileged(
            "rm",
            &["-rf", &self.folder.display().to_string()],
        ));
    }
}

/// A command run as the user that Postgres and PgBouncer agree to run as.
pub(crate) fn unprivileged(program: impl AsRef<Path>, arguments: &[&str]) -> Command {
    let mut command = Command::new(variable_of("ONCEGATE_TEST_UNPRIVILEGED"));
    command.arg(program.as_ref()).args(arguments);
    command
}

/// An empty folder of that user, where this machine keeps what is temporary.
pub(crate) fn unprivileged_folder(name: &str) -> PathBuf {
    let form = format!("oncegate-{name}.XXXXXX");
    let form = std::env::temp_dir().join(form).display().to_string();
    printed(&mut unprivileged("mktemp", &["-d", &form])).into()
}

/// What a command prints; one that fails fails the test.
pub(crate) fn printed(command: &mut Command) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().expect("the program is there");
    let stderr = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{command:?}: {stderr}");
    String::from_utf8_lossy(&stdout).trim().to_owned()
}

pub(crate) fn variable_of(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} must be set: see scripts/test"))
}
