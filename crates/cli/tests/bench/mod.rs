//! A directory of its own for each test, with ways to put programs, scripts and libraries into it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A test's directory.
pub struct Bench(PathBuf);

impl Bench {
    /// An empty directory for the test of that name.
    pub fn new(name: &str) -> Bench {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).expect("a directory");
        Bench(dir)
    }

    /// A path in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// `pario` with these arguments, in this directory, without settings from outside.
    pub fn pario(&self, arguments: &[&str]) -> Command {
        // A link in the directory, so that no libpario.so lies near it but the test's own.
        let pario = self.path("bin/pario");
        if !pario.exists() {
            std::fs::create_dir_all(self.path("bin")).expect("a directory");
            std::fs::hard_link(env!("CARGO_BIN_EXE_pario"), &pario).expect("linked");
        }
        let mut command = Command::new(pario);
        command.args(arguments).current_dir(&self.0);
        for name in
            ["LD_PRELOAD", "PARIO_LIB", "PARIO_HINTS", "PARIO_HINTS_FILE", "PARIO_STATS", "ROMIO_HINTS"]
        {
            command.env_remove(name);
        }
        command
    }

    /// An empty `lib/libpario.so`, which `pario` finds from `bin/`.
    pub fn library(&self) -> String {
        std::fs::create_dir_all(self.path("lib")).expect("a directory");
        let library = self.compile("gcc", "int stand_in;", &["-shared", "-fPIC", "-o", "lib/libpario.so"]);
        library.canonicalize().expect("a file").to_str().expect("a path").to_owned()
    }

    /// Compiles C text; the argument after `-o` names the result.
    pub fn compile(&self, compiler: &str, source: &str, arguments: &[&str]) -> PathBuf {
        let place = arguments.iter().position(|a| *a == "-o").expect("a name for the result");
        let result = self.path(arguments[place + 1]);
        let code = result.with_extension("c");
        std::fs::write(&code, source).expect("written");
        let mut command = Command::new(compiler);
        let output = command.current_dir(&self.0).arg(&code).args(arguments).output().expect("a compiler");
        assert!(output.status.success(), "{compiler}: {}", text(&output.stderr));
        result
    }

    /// An executable file with this text.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        // Another process makes the file: were it open for writing here while another test starts a process,
        // that process would hold it open for a moment, and it could not be run meanwhile.
        let (path, draft) = (self.path(name), self.path("draft"));
        std::fs::write(&draft, text).expect("written");
        let done = Command::new("install").args(["-m", "755"]).args([&draft, &path]).status();
        assert!(done.expect("install runs").success());
        path
    }

    /// An executable shell script.
    pub fn script(&self, name: &str, text: &str) -> PathBuf {
        self.file(name, &format!("#!/bin/sh\n{text}\n"))
    }
}

/// Output as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
