//! Processes, as `/proc` shows them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// A process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessHandle(pub u32);

impl ProcessHandle {
    /// Those whose environment has this variable with this value.
    pub fn with(name: &str, value: &str) -> Vec<ProcessHandle> {
        let wanted = format!("{name}={value}");
        let mut found: Vec<_> = all()
            .filter(|process| {
                let environment = fs::read(process.file("environ")).unwrap_or_default();
                environment.split(|&byte| byte == 0).any(|variable| variable == wanted.as_bytes())
            })
            .collect();
        found.sort();
        found
    }

    /// A file of it in `/proc`.
    fn file(self, name: &str) -> String {
        format!("/proc/{}/{name}", self.0)
    }

    /// Its words; none once it has ended.
    pub fn command(self) -> String {
        let line = fs::read(self.file("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).replace('\0', " ").trim().to_owned()
    }

    /// Whether it has this file mapped.
    pub fn maps(self, path: &Path) -> bool {
        // By its number: it may have had another name when it was mapped.
        let Ok(file) = fs::metadata(format!("/proc/{}/root{}", self.0, path.display())) else { return false };
        let maps = fs::read_to_string(self.file("maps")).unwrap_or_default();
        maps.lines().any(|line| line.split_whitespace().nth(4) == Some(&file.ino().to_string()))
    }

    /// The fields of its state from the third on: what comes before may hold anything.
    fn fields(self) -> Vec<String> {
        let stat = fs::read_to_string(self.file("stat")).unwrap_or_default();
        let fields = stat.rsplit_once(')').map_or("", |(_, after)| after).split_whitespace();
        fields.map(str::to_owned).collect()
    }

    /// The process that started it, or that took it over; 0 once it has ended.
    pub fn parent(self) -> ProcessHandle {
        ProcessHandle(self.fields().get(1).and_then(|field| field.parse().ok()).unwrap_or(0))
    }

    /// Whether it is stopped.
    pub fn is_stopped(self) -> bool {
        self.fields().first().is_some_and(|state| state == "T")
    }

    /// Whether it has a file below this directory open.
    pub fn has_open_below(self, dir: &Path) -> bool {
        let files = fs::read_dir(self.file("fd")).into_iter().flatten().flatten();
        files.filter_map(|file| fs::read_link(file.path()).ok()).any(|path| path.starts_with(dir))
    }

    /// Ticks of CPU time that it has used, for itself and in the system: the 14th and 15th field.
    pub fn ticks(self) -> u64 {
        self.fields().iter().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum()
    }

    /// Whether it has ended, with all its threads (the 20th field) and all that it had open.
    pub fn is_gone(self) -> bool {
        let fields = self.fields();
        fields.is_empty() || (fields[0] == "Z" && fields[17] == "1") || fields[0] == "X"
    }

    /// A line of its status in KiB, such as `RssAnon`.
    pub fn kib(self, name: &str) -> u64 {
        let status = fs::read_to_string(self.file("status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|text| text.split_whitespace().next()?.parse().ok()).unwrap_or(0)
    }

    /// The addresses (in hexadecimal, with the port) at which it listens by TCP.
    pub fn listens_at(self) -> Vec<String> {
        let links = fs::read_dir(self.file("fd")).into_iter().flatten().flatten();
        let sockets: Vec<String> = links
            .filter_map(|link| {
                let to = fs::read_link(link.path()).ok()?.to_str()?.to_owned();
                Some(to.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
            })
            .collect();
        let tables =
            ["net/tcp", "net/tcp6"].map(|name| fs::read_to_string(self.file(name)).unwrap_or_default());
        let rows =
            tables.iter().flat_map(|table| table.lines().skip(1)).map(|row| row.split_whitespace().collect());
        rows.filter(|row: &Vec<&str>| row[3] == "0A" && sockets.iter().any(|socket| socket == row[9]))
            .map(|row| row[1].to_owned())
            .collect()
    }

    /// Ends it as the kernel does when memory is short.
    pub fn kill(self) {
        self.signal("-KILL");
    }

    /// Stops it.
    pub fn stop(self) {
        self.signal("-STOP");
        while self.fields().first().is_some_and(|state| state != "T") {
            std::thread::yield_now();
        }
    }

    /// After it was stopped.
    pub fn go_on(self) {
        self.signal("-CONT");
    }

    /// Sends it a signal, such as `-TERM`.
    pub fn signal(self, name: &str) {
        let mut kill = Command::new("kill");
        // It may just have ended by itself.
        let _ = kill.args([name, "--", &self.0.to_string()]).stderr(Stdio::null()).status();
    }
}

fn all() -> impl Iterator<Item = ProcessHandle> {
    let entries = fs::read_dir("/proc").expect("there is /proc");
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok().map(ProcessHandle))
}
