//! The standard output of commands.

use std::io::{self, Write};

/// Writes a command's output. A reader that closes the pipe early is no error.
pub fn print(text: &str) -> io::Result<()> {
    print_more(text).map(drop)
}

/// Writes a part of a command's output. Returns whether its reader wants more.
pub fn print_more(text: &str) -> io::Result<bool> {
    let mut output = io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true),
    }
}
