//! The conformance suite over the stores, and the proof that no case of it is left out.

use std::collections::BTreeSet;
use std::path::Path;

use oncegate::conformance_suite;
use oncegate::testkit::databases::{
    cached_memory, cached_postgres, memory, postgres_15, postgres_18, sharing_memory,
    sharing_nowhere, sqlite,
};
use oncegate::testkit::grpc_store::over_grpc;

conformance_suite!(on_memory, memory);
conformance_suite!(over_the_wire, over_grpc);
conformance_suite!(on_sqlite, sqlite);
conformance_suite!(through_a_memory, cached_memory);
conformance_suite!(through_a_memory_on_postgres, cached_postgres);
conformance_suite!(through_redis, sharing_memory);
conformance_suite!(through_a_redis_that_is_away, sharing_nowhere);
conformance_suite!(on_postgres_15, postgres_15);
conformance_suite!(on_postgres_18, postgres_18);

#[test]
fn every_case_of_the_suite_is_stamped() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/testkit/conformance");
    let read = |path: &Path| std::fs::read_to_string(path).expect("a source file is readable");
    // A name in the list that is no case does not compile; a case that is not listed is found here.
    let list = read(&folder.join("mod.rs"));
    let listed: BTreeSet<&str> = list
        .lines()
        .map(|line| line.trim().trim_end_matches([',', ';']))
        .collect();
    let mut written = BTreeSet::<String>::new();
    for entry in std::fs::read_dir(&folder).expect("the suite's folder is readable") {
        let path = entry.expect("an entry").path();
        for line in read(&path).lines() {
            let case = line
                .strip_prefix("pub async fn ")
                .and_then(|rest| rest.split_once('('));
            if let Some((name, _)) = case {
                assert!(listed.contains(name), "{name} is not stamped");
                let first = written.insert(name.to_owned());
                assert!(first, "{name} is the name of two cases");
            }
        }
    }
    assert!(written.len() > 100, "the cases were not found");
}
