//! `migrate` and `doctor` on a real Postgres: an empty database, a migrated one, one of a newer
//! version, and one that would lose what was acknowledged.

use oncegate::testkit::databases::TempPostgres;
use oncegate::testkit::process::{Ended, Server};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

use crate::cli::PROGRAM;
use crate::rig::SERVERS;

/// The program against one database, which its server uses too once it is launched.
struct Place {
    server: Server,
    database: TempPostgres,
}

impl Place {
    async fn on(variable: &str) -> Self {
        let database = TempPostgres::create(variable).await;
        let settings = [
            ("ONCEGATE_DATABASE_URL", &*database.url()),
            ("ONCEGATE_NAMESPACES_AUTO_CREATE", "true"),
        ];
        let server = Server::prepare(PROGRAM, &settings);
        Self { server, database }
    }

    /// Runs a command on the database. Whatever it says, it never shows the password.
    async fn run(&self, arguments: &[&str]) -> Ended {
        let url = self.database.url();
        let named = [arguments, &["--database-url", &url]].concat();
        let ended = self.server.run(&named).await;
        let (_, rest) = url.split_once("://").expect("a scheme");
        let password = rest.split([':', '@']).nth(1).expect("a password");
        let shown = format!("{}{}", ended.stdout, ended.stderr);
        assert!(!shown.contains(password), "{ended:?}");
        ended
    }

    async fn sql(&self, statement: String) {
        let connection = PgConnection::connect(&self.database.url()).await;
        let mut connection = connection.expect("the server answers");
        let done = connection.execute(AssertSqlSafe(statement)).await;
        done.expect("the statement is carried out");
    }
}

/// What a doctor says of one thing: whether it is in order, what was found, and what to do.
fn told(doctor: &Ended, name: &str) -> (bool, String) {
    let checks = doctor.json()["checks"].clone();
    let checks = checks.as_array().expect("a list").iter();
    let mut named = checks.filter(|check| check["name"] == name);
    let check = named.next().unwrap_or_else(|| panic!("{name}: {doctor:?}"));
    let text = format!("{} {}", check["found"], check["advice"]);
    (check["ok"] == true, text)
}

const DOCTOR: [&str; 3] = ["doctor", "-o", "json"];

#[tokio::test]
async fn an_empty_database_is_migrated_once_and_then_everything_is_in_order() {
    for variable in SERVERS {
        let mut place = Place::on(variable).await;
        let doctor = place.run(&DOCTOR).await;
        let (ok, text) = told(doctor.expect(1), "schema");
        assert!(!ok && text.contains("oncegate migrate"), "{text}");

        let up = place.run(&["migrate"]).await;
        assert!(up.expect(0).stdout.contains("from version 0 to"), "{up:?}");
        let again = place.run(&["migrate"]).await;
        let nothing = again.expect(0).stdout.contains("nothing was to be done");
        assert!(nothing, "{again:?}");

        place.server.launch().await;
        let doctor = place.run(&DOCTOR).await;
        doctor.expect(0);
        for name in ["schema", "writable", "clock", "server", "ready", "token"] {
            assert!(told(&doctor, name).0, "{name}: {doctor:?}");
        }
        let (_, store) = told(&doctor, "store");
        assert!(
            store.contains("postgres") && store.contains(":hidden@"),
            "{store}"
        );
        let (_, settings) = told(&doctor, "settings");
        for setting in ["fsync=on", "full_page_writes=on", "synchronous_commit=on"] {
            assert!(settings.contains(setting), "{settings}");
        }
    }
}

#[tokio::test]
async fn a_schema_is_not_taken_back_over_records() {
    for variable in SERVERS {
        let mut place = Place::on(variable).await;
        let down = ["migrate", "--down-to", "0"];
        place.run(&["migrate"]).await.expect(0);
        let empty = place.run(&down).await;
        assert!(empty.expect(0).stdout.contains("to 0"), "{empty:?}");
        place.run(&["migrate"]).await.expect(0);
        place.server.launch().await;
        let reserve = ["reserve", "k", "--operation", "op"];
        place.server.run(&reserve).await.expect(0);
        let refused = place.run(&down).await;
        assert!(
            refused.expect(110).stderr.contains("records"),
            "{refused:?}"
        );
        let doctor = place.run(&DOCTOR).await;
        assert!(told(doctor.expect(0), "schema").0, "{doctor:?}");
    }
}

#[tokio::test]
async fn a_newer_schema_asks_for_a_newer_program_and_is_left_alone() {
    for variable in SERVERS {
        let place = Place::on(variable).await;
        place.run(&["migrate"]).await.expect(0);
        let newer = "INSERT INTO oncegate_migrations VALUES (99, 'later', now(), true, '', 0)";
        place.sql(newer.to_owned()).await;
        let refused = place.run(&["migrate"]).await;
        assert!(refused.expect(110).stderr.contains("newer"), "{refused:?}");
        let doctor = place.run(&DOCTOR).await;
        let (ok, text) = told(doctor.expect(1), "schema");
        assert!(
            !ok && text.contains("99") && text.contains("newer"),
            "{text}"
        );
    }
}

// Field case I1.
#[tokio::test]
async fn a_database_that_would_lose_what_was_acknowledged_is_told_with_the_remedy() {
    for variable in SERVERS {
        let place = Place::on(variable).await;
        place.run(&["migrate"]).await.expect(0);
        let weak = format!(
            "ALTER DATABASE {} SET synchronous_commit = off",
            place.database.name()
        );
        place.sql(weak).await;
        let doctor = place.run(&DOCTOR).await;
        let (ok, text) = told(doctor.expect(1), "store");
        assert!(!ok, "{text}");
        for part in ["synchronous_commit is off", "ALTER DATABASE", "RESET"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
