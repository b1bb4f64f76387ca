//! Listings of files: names, long lines, JSON; and the sums of their sizes.

use crate::table::{Align, TextTable, columns};
use crate::text;
use pario_client::Metadata;
use pario_copy::{DirectoryListing, DiskUsage, ListedFile, join};
use serde_json::{Value, json};

/// How files are listed.
#[derive(Clone, Copy, Debug)]
pub struct ListingStyle {
    /// One line for each.
    pub long: bool,
    /// Sizes in two or three digits and a unit.
    pub human_sizes: bool,
    /// The width of the terminal, if the output is one.
    pub terminal: Option<usize>,
}

/// A listing for people.
pub fn listing_text(listings: &[DirectoryListing], style: &ListingStyle) -> String {
    let terminal = style.terminal.is_some();
    let mut sections = Vec::new();
    for listing in listings {
        let mut text = String::new();
        if let Some(directory) = listing.directory.as_ref().filter(|_| listings.len() > 1) {
            text += &format!("{}:\n", shown(&directory.to_string(), terminal));
        }
        text += &match (style.long, style.terminal) {
            (true, _) => long(style, &listing.files),
            (false, Some(width)) => {
                columns(&listing.files.iter().map(|f| label(f, true)).collect::<Vec<_>>(), width)
            }
            (false, None) => listing.files.iter().map(|f| f.name.clone() + "\n").collect(),
        };
        sections.push(text);
    }
    sections.join("\n")
}

fn long(style: &ListingStyle, files: &[ListedFile]) -> String {
    let mut table = TextTable::new(&[Align::Left, Align::Right, Align::Right, Align::Left, Align::Left]);
    for file in files {
        let metadata = &file.metadata;
        let size = match metadata.is_dir() {
            true => "-".to_owned(),
            false => text::size(metadata.len(), style.human_sizes),
        };
        table.row(vec![
            text::mode(metadata.is_dir(), metadata.mode()),
            metadata.opens().to_string(),
            size,
            text::local_time(metadata.modified()),
            label(file, style.terminal.is_some()),
        ]);
    }
    table.text(0)
}

/// On a terminal directories have a slash at their end.
fn label(file: &ListedFile, terminal: bool) -> String {
    let name = shown(&file.name, terminal);
    if file.metadata.is_dir() && terminal && !name.ends_with('/') { name + "/" } else { name }
}

/// Programs get names as they are, terminals without what would steer them.
fn shown(name: &str, terminal: bool) -> String {
    if terminal { text::printable(name) } else { name.to_owned() }
}

/// A listing for programs.
pub fn listing_json(listings: &[DirectoryListing]) -> Value {
    let objects = listings.iter().flat_map(|listing| {
        let path = |name: &str| match &listing.directory {
            Some(directory) => format!("{}:{}", directory.partition, join(&directory.path, name)),
            None => name.to_owned(),
        };
        listing.files.iter().map(move |file| file_object(&path(&file.name), &file.metadata))
    });
    objects.collect()
}

/// A file or directory for programs.
pub(crate) fn file_object(path: &str, metadata: &Metadata) -> Value {
    let mut value = json!({
        "path": path,
        "kind": if metadata.is_dir() { "directory" } else { "file" },
        "id": metadata.id().to_string(),
        "mode": format!("{:04o}", metadata.mode()),
        "opens": metadata.opens(),
        "accessed_ns": text::nanoseconds(metadata.accessed()),
        "modified_ns": text::nanoseconds(metadata.modified()),
        "changed_ns": text::nanoseconds(metadata.changed()),
        "created_ns": text::nanoseconds(metadata.created()),
    });
    match metadata.is_dir() {
        true => value["entries"] = json!(metadata.entries()),
        false => value["size"] = json!(metadata.len()),
    }
    value
}

/// Sums of sizes for people.
pub fn disk_usage_text(sums: &[DiskUsage], human: bool) -> String {
    sums.iter().map(|sum| format!("{}\t{}\n", text::size(sum.bytes, human), sum.path)).collect()
}

/// Sums of sizes for programs.
pub fn disk_usage_json(sums: &[DiskUsage]) -> Value {
    let object = |sum: &DiskUsage| {
        let DiskUsage { path, bytes, files, directories } = sum;
        json!({ "path": path, "bytes": bytes, "files": files, "directories": directories })
    };
    sums.iter().map(object).collect()
}
