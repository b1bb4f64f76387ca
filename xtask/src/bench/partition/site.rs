//! A directory with a registry of its own, and partitions that run in it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::network::Between;
use crate::place;
use crate::program::{self, Failure, Outcome, at};

/// The names of all partitions of the bench.
const NAMES: [&str; 5] = ["large", "small", "streams", "dirty", "names"];

/// The directory. It is removed when this value is dropped.
pub struct Site {
    dir: PathBuf,
    /// The `pario` program that starts and stops the partitions.
    program: PathBuf,
}

impl Site {
    /// Cleans up first after a bench that was killed.
    pub fn create(dir: &Path, program: &Path) -> Outcome<Site> {
        let site = Site { dir: dir.to_path_buf(), program: program.to_path_buf() };
        if dir.exists() {
            for name in NAMES {
                // Most of them do not run.
                let _ = program::capture(&mut site.down(name, &Between::Nothing));
            }
            at(dir, std::fs::remove_dir_all(dir))?;
        }
        at(dir, std::fs::create_dir_all(dir))?;
        Ok(site)
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Creates and starts a partition; `settings` are lines of its file.
    pub fn up<'a>(
        &'a self,
        name: &'static str,
        servers: u32,
        settings: &[&str],
        between: &'a Between<'a>,
    ) -> Outcome<Partition<'a>> {
        assert!(NAMES.contains(&name), "{name} would not be cleaned up after");
        // A partition of that name may have been measured before.
        let own = self.dir.join(name);
        if own.exists() {
            at(&own, std::fs::remove_dir_all(&own))?;
        }
        at(&own, std::fs::create_dir(&own))?;
        let places: Vec<String> =
            (0..servers).map(|server| format!("'{}'", own.join(server.to_string()).display())).collect();
        let file = own.join("partition.toml");
        let text = format!("name = '{name}'\nservers = [{}]\nlauncher = 'local'\n", places.join(", "));
        at(&file, std::fs::write(&file, text))?;
        let mut up = self.pario(between.on_server(&self.program));
        up.args(["up", "--json"]).arg(&file);
        settings.iter().for_each(|setting| {
            up.args(["--set", setting]);
        });
        let said = program::stdout(&mut up)?;
        Ok(Partition { site: self, name, between, said })
    }

    fn down(&self, name: &str, between: &Between<'_>) -> Command {
        let mut down = self.pario(between.on_server(&self.program));
        down.args(["down", "--forget", name]);
        down
    }

    /// A plain server of streams, on the servers' side.
    pub fn peer(&self, between: &Between<'_>) -> Outcome<Peer> {
        let mut command = between.on_server(program_to_measure());
        command.args(["peer", &format!("{}:0", between.server())]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child =
            command.spawn().map_err(|error| Failure::new(format!("cannot start measure: {error}")))?;
        let mut line = String::new();
        let read = child.stdout.take().map(|stdout| BufReader::new(stdout).read_line(&mut line));
        let address = line.strip_prefix("listening ").map(|address| address.trim_end().to_string());
        let peer = Peer { child, address: address.clone().unwrap_or_default() };
        match (read, address) {
            (Some(Ok(_)), Some(_)) => Ok(peer),
            _ => Err(Failure::new("measure peer: it did not say where it listens")),
        }
    }

    fn pario(&self, mut command: Command) -> Command {
        command.env("PARIO_HOME", self.dir.join("home")).env_remove("PARIO_RUN");
        command
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.dir) {
            eprintln!("xtask bench: {}: {error}; remove it by hand", self.dir.display());
        }
    }
}

/// A process that ends when this value is dropped.
pub struct Peer {
    child: Child,
    pub address: String,
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        if let Err(error) = self.child.wait() {
            eprintln!("xtask bench: measure peer: {error}");
        }
    }
}

/// A running partition. It is stopped when this value is dropped.
pub struct Partition<'a> {
    site: &'a Site,
    name: &'static str,
    between: &'a Between<'a>,
    /// What `pario up --json` printed.
    said: String,
}

impl Partition<'_> {
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What `PARIO_HOME` has to be.
    pub fn home(&self) -> PathBuf {
        self.site.dir.join("home")
    }

    /// The program that measures, on the clients' side.
    pub fn measure(&self) -> Command {
        self.site.pario(self.between.on_client(program_to_measure()))
    }

    /// Its servers by TCP, as `measure` wants to be told.
    pub fn target(&self) -> Outcome<String> {
        let id = values(&self.said, "id").next();
        let id = id.ok_or_else(|| Failure::new(format!("pario up --json said no id: {}", self.said)))?;
        let secret = self.site.dir.join("home/secrets").join(id);
        let addresses: Vec<&str> = values(&self.said, "tcp").collect();
        Ok(format!("{id} {} {}", secret.display(), addresses.join(",")))
    }
}

impl Drop for Partition<'_> {
    fn drop(&mut self) {
        if let Err(failure) = program::stdout(&mut self.site.down(self.name, self.between)) {
            eprintln!("xtask bench: {failure}");
        }
    }
}

fn program_to_measure() -> PathBuf {
    place::target().join("release/examples/measure")
}

/// The texts of a key in the JSON of `pario up`, which has one key per line.
fn values<'a>(json: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    json.lines().filter_map(move |line| {
        let (name, value) = line.trim().trim_end_matches(',').split_once(": ")?;
        (name.trim_matches('"') == key).then(|| value.trim_matches('"'))
    })
}

#[cfg(test)]
mod tests {
    use super::values;

    #[test]
    fn addresses_are_found_in_what_up_says() {
        let said = "{\n  \"id\": \"54\",\n  \"running\": {\n    \"0\": {\n      \"tcp\": \"vm:1\",\n      \
                    \"unix\": \"/x\"\n    },\n    \"1\": {\n      \"tcp\": \"vm:2\"\n    }\n  }\n}\n";
        assert_eq!(values(said, "id").collect::<Vec<_>>(), ["54"]);
        assert_eq!(values(said, "tcp").collect::<Vec<_>>(), ["vm:1", "vm:2"]);
    }
}
