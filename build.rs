//! Compiles `proto/` into Rust, and keeps the descriptors for reflection. Needs no `protoc`.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use prost::Message;

const PROTO_ROOT: &str = "proto";
const PROTO_PACKAGE: &str = "proto/oncegate/v1";
const DESCRIPTOR_FILE: &str = "oncegate.binpb";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={PROTO_ROOT}");

    // With imports: reflection must be able to answer for the google types too.
    let descriptors = protox::compile(proto_files(Path::new(PROTO_PACKAGE))?, [PROTO_ROOT])?;
    let out_dir = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out_dir.join(DESCRIPTOR_FILE), descriptors.encode_to_vec())?;

    tonic_prost_build::configure()
        .build_client(true)
        .build_server(true)
        .btree_map(".")
        .compile_fds(descriptors)?;
    Ok(())
}

/// Finds the package's files, sorted so that the output is the same on every machine.
fn proto_files(folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "proto")
        {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
