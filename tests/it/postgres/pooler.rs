//! A transaction pooler between the store and the server takes the session's settings away: the
//! store says so instead of working without them.

use super::*;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tokio::net::TcpStream;
use tokio::process::{Child, Command as Process};

/// `PgBouncer` in front of one database, gone when this is dropped.
struct Pooler {
    url: String,
    _process: Child,
    _folder: tempfile::TempDir,
}

impl Pooler {
    async fn start(database: &Database, settings: &str) -> Self {
        let path = |variable: &str| {
            std::env::var(variable).unwrap_or_else(|_| panic!("{variable}: see scripts/test"))
        };
        let folder = tempfile::tempdir().unwrap();
        let port = free_port();
        let config = folder.path().join("pgbouncer.ini");
        std::fs::write(&config, configuration(database, port, settings)).unwrap();
        open_to_everybody(folder.path(), 0o755);
        open_to_everybody(&config, 0o644);
        let process = Process::new(path("ONCEGATE_TEST_UNPRIVILEGED"))
            .args([
                path("ONCEGATE_TEST_PGBOUNCER").as_ref(),
                "-q".as_ref(),
                config.as_os_str(),
            ])
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let answers = async {
            while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), answers)
            .await
            .expect("PgBouncer answers");
        let url = format!("postgres://oncegate@127.0.0.1:{port}/{}", database.name);
        Self {
            url,
            _process: process,
            _folder: folder,
        }
    }
}

fn configuration(database: &Database, port: u16, settings: &str) -> String {
    let (_, rest) = database.url.split_once("://").unwrap();
    let (login, place) = rest.split_once('@').unwrap();
    let (user, password) = login.split_once(':').unwrap();
    let (host, place) = place.split_once(':').unwrap();
    let (server_port, name) = place.split_once('/').unwrap();
    format!(
        "[databases]\n{name} = host={host} port={server_port} user={user} password={password}\n\
         [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
         auth_type = any\npool_mode = transaction\n{settings}\n"
    )
}

fn free_port() -> u16 {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    free.local_addr().unwrap().port()
}

fn open_to_everybody(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[tokio::test]
async fn a_transaction_pooler_is_named_whether_it_refuses_or_drops_the_settings() {
    for database in Database::migrated().await {
        for settings in [
            "",
            "ignore_startup_parameters = options, extra_float_digits",
        ] {
            let pooler = Pooler::start(&database, settings).await;
            let store = PostgresStore::connect(&PostgresOptions::new(&*pooler.url)).unwrap();
            let refused = store.apply(reserve("any", 1)).await;
            let Err(StoreError::Unusable(text)) = refused else {
                panic!("{settings:?}: {refused:?}");
            };
            assert!(
                text.contains("transaction pooler") && text.contains("connect"),
                "{text}"
            );
            store.close().await;
        }
        database.drop().await;
    }
}
