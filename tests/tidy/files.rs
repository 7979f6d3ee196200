//! The files of the repository, and the rules about a file as a whole.

use std::fmt;
use std::path::Path;
use std::process::Command;

/// The most lines of one Rust file.
const LINES_MAX: usize = 400;
/// The most entries of [`LONG_FILES`].
const LONG_FILES_MAX: usize = 5;
/// Files that may be longer, each with its reason.
pub(crate) const LONG_FILES: &[(&str, &str)] = &[];

/// One thing to put right. Line 0 is the file as a whole.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) message: String,
}

impl Finding {
    pub(crate) fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            message: message.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{line}: {}", self.path, self.message),
        }
    }
}

/// A file's path from the root, with `/`, and its text.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    pub(crate) fn has_extension(&self, extension: &str) -> bool {
        Path::new(&self.path)
            .extension()
            .is_some_and(|own| own == extension)
    }
}

/// Every file that git tracks or would track.
#[derive(Debug)]
pub(crate) struct Repository {
    pub(crate) files: Vec<File>,
}

impl Repository {
    /// Reads the work tree of this package.
    pub(crate) fn open() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let output = Command::new("git")
            .args([
                "-c",
                "safe.directory=*",
                "ls-files",
                "-z",
                "--cached",
                "--others",
            ])
            .arg("--exclude-standard")
            .current_dir(root)
            .output()
            .expect("git must be installed: the rules look at what it tracks");
        assert!(
            output.status.success(),
            "git ls-files: {}",
            lossy(&output.stderr)
        );
        let mut files: Vec<File> = lossy(&output.stdout)
            .split('\0')
            .filter(|path| !path.is_empty())
            // A tracked file that was just deleted is still listed.
            .filter_map(|path| Some((path, std::fs::read(root.join(path)).ok()?)))
            .map(|(path, bytes)| File {
                path: path.to_owned(),
                text: lossy(&bytes),
            })
            .collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files.dedup_by(|a, b| a.path == b.path);
        assert!(
            files.iter().any(|file| file.path == "Cargo.toml"),
            "no Cargo.toml among the files"
        );
        Self { files }
    }

    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let files = files
            .iter()
            .map(|&(path, text)| File {
                path: path.to_owned(),
                text: text.to_owned(),
            })
            .collect();
        Self { files }
    }

    pub(crate) fn get(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The Rust files below one of these folders, without generated ones.
    pub(crate) fn rust(&self, folders: &[&str]) -> impl Iterator<Item = &File> {
        self.files.iter().filter(move |file| {
            file.has_extension("rs")
                && !file.path.contains("/gen/")
                && folders.iter().any(|folder| file.path.starts_with(folder))
        })
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Rust files over the limit, and exceptions that are no longer needed.
pub(crate) fn too_long(repository: &Repository, exceptions: &[(&str, &str)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in repository.rust(&["src/", "tests/", "bench/", "clients/"]) {
        let lines = file.text.lines().count();
        let excepted = exceptions.iter().any(|(path, _)| *path == file.path);
        if lines > LINES_MAX && !excepted {
            let message = format!("{lines} lines; split it, {LINES_MAX} is the most");
            findings.push(Finding::new(&file.path, 0, message));
        }
        if lines <= LINES_MAX && excepted {
            let message = "no longer long; take it off LONG_FILES in tests/tidy/files.rs";
            findings.push(Finding::new(&file.path, 0, message));
        }
    }
    for (path, reason) in exceptions {
        if repository.get(path).is_none() {
            let message = "does not exist; take it off LONG_FILES in tests/tidy/files.rs";
            findings.push(Finding::new(path, 0, message));
        }
        if reason.split_whitespace().count() < 3 {
            findings.push(Finding::new(
                path,
                0,
                "say in LONG_FILES why it may be long",
            ));
        }
    }
    if exceptions.len() > LONG_FILES_MAX {
        let message = format!("LONG_FILES has more than {LONG_FILES_MAX} entries; split a file");
        findings.push(Finding::new("tests/tidy/files.rs", 0, message));
    }
    findings
}

/// Modules that do not begin with `//!`.
pub(crate) fn without_purpose(repository: &Repository) -> Vec<Finding> {
    let begins = |file: &&File| !file.text.trim_start().starts_with("//!");
    repository
        .rust(&["src/"])
        .filter(begins)
        .map(|file| {
            let message = "begin with `//!`: what the module is for and what it does not do";
            Finding::new(&file.path, 1, message)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(count: usize) -> String {
        "//! x\n".repeat(count)
    }

    #[test]
    fn a_file_may_have_400_lines_and_no_more() {
        let (fits, long) = (lines(400), lines(401));
        let repository = Repository::of(&[("src/a.rs", &fits), ("tests/b.rs", &long)]);
        let findings = too_long(&repository, &[]);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].path, "tests/b.rs");
    }

    #[test]
    fn generated_files_may_be_long() {
        let long = lines(401);
        let repository = Repository::of(&[("clients/rust/src/gen/a.rs", &long)]);
        assert_eq!(too_long(&repository, &[]), []);
    }

    #[test]
    fn an_exception_needs_a_long_file_and_a_reason() {
        let (short, long) = (lines(1), lines(401));
        let repository = Repository::of(&[("src/a.rs", &short), ("src/b.rs", &long)]);
        let reason = "one table of all conversions";
        assert_eq!(too_long(&repository, &[("src/b.rs", reason)]), []);
        assert_eq!(too_long(&repository, &[("src/b.rs", "long")]).len(), 1);
        assert_eq!(
            too_long(&repository, &[("src/b.rs", reason), ("src/a.rs", reason)]).len(),
            1
        );
        assert_eq!(
            too_long(&repository, &[("src/b.rs", reason), ("src/c.rs", reason)]).len(),
            1
        );
    }

    #[test]
    fn there_are_five_exceptions_at_most() {
        let long = lines(401);
        let paths = [
            "src/a.rs", "src/b.rs", "src/c.rs", "src/d.rs", "src/e.rs", "src/f.rs",
        ];
        let repository = Repository::of(&paths.map(|path| (path, long.as_str())));
        let exceptions = paths.map(|path| (path, "a reason of words"));
        assert_eq!(
            too_long(&repository, &exceptions[..5]).len(),
            1,
            "the sixth is long"
        );
        assert_eq!(
            too_long(&repository, &exceptions).len(),
            1,
            "the sixth entry"
        );
    }

    #[test]
    fn a_module_without_a_purpose_is_found() {
        let repository = Repository::of(&[
            ("src/a.rs", "//! Keys.\n"),
            ("src/b.rs", "// Keys.\n"),
            ("src/c.rs", ""),
        ]);
        let paths: Vec<String> = without_purpose(&repository)
            .into_iter()
            .map(|finding| finding.path)
            .collect();
        assert_eq!(paths, ["src/b.rs", "src/c.rs"]);
    }

    #[test]
    fn a_finding_names_file_and_line() {
        assert_eq!(Finding::new("a", 3, "b").to_string(), "a:3: b");
        assert_eq!(Finding::new("a", 0, "b").to_string(), "a: b");
    }
}
