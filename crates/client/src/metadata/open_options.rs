//! The options of an open.

use std::sync::Arc;

use pario_layout::PlacementMap;
use pario_wire::Request;
use pario_wire::message::{CreateMode, LayoutRequest, OpenAccess};

use crate::error::{Error, Result};

/// The options of an open and the properties of a new file. As in [`std::fs::OpenOptions`], plus striping.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    read: bool,
    write: bool,
    create: bool,
    create_new: bool,
    pub(crate) truncate: bool,
    mode: u32,
    layout_request: LayoutRequest,
    pub(crate) table: Option<Arc<PlacementMap>>,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions::new()
    }
}

impl OpenOptions {
    /// Options without any access: set at least [`read`](OpenOptions::read) or [`write`](OpenOptions::write).
    pub fn new() -> OpenOptions {
        OpenOptions {
            read: false,
            write: false,
            create: false,
            create_new: false,
            truncate: false,
            mode: 0o644,
            layout_request: LayoutRequest::default(),
            table: None,
        }
    }

    /// Opens the file for reading.
    pub fn read(&mut self, read: bool) -> &mut OpenOptions {
        self.read = read;
        self
    }

    /// Opens the file for writing.
    pub fn write(&mut self, write: bool) -> &mut OpenOptions {
        self.write = write;
        self
    }

    /// Creates the file if it does not exist.
    pub fn create(&mut self, create: bool) -> &mut OpenOptions {
        self.create = create;
        self
    }

    /// Creates the file; it must not exist. Takes precedence over [`create`](OpenOptions::create).
    pub fn create_new(&mut self, create: bool) -> &mut OpenOptions {
        self.create_new = create;
        self
    }

    /// Truncates the file to 0 bytes.
    pub fn truncate(&mut self, truncate: bool) -> &mut OpenOptions {
        self.truncate = truncate;
        self
    }

    /// The permission bits of a new file (0644).
    pub fn mode(&mut self, mode: u32) -> &mut OpenOptions {
        self.mode = mode;
        self
    }

    /// Bytes of a new file's stripes; 0: the partition's default.
    pub fn stripe(&mut self, bytes: u64) -> &mut OpenOptions {
        self.layout_request.stripe = bytes;
        self
    }

    /// The number of servers over which a new file is striped; 0: the partition's default.
    pub fn stripe_count(&mut self, servers: u16) -> &mut OpenOptions {
        self.layout_request.count = servers;
        self
    }

    /// The server of a new file's first stripe, by its number.
    pub fn first_server(&mut self, server: u16) -> &mut OpenOptions {
        self.layout_request.first = Some(server);
        self
    }

    /// Places a new file: the servers in the table hold its extents, each a replica; the rest is striped.
    pub fn table(&mut self, table: PlacementMap) -> &mut OpenOptions {
        self.layout_request.table = Some(table.id());
        self.table = Some(Arc::new(table));
        self
    }

    pub(crate) fn request(&self, path: String) -> Result<(Request, OpenAccess)> {
        let access = match (self.read, self.write) {
            (true, false) => OpenAccess::Read,
            (false, true) => OpenAccess::Write,
            (true, true) => OpenAccess::Both,
            (false, false) => return Err(Error::Options("say whether it is for reading or writing")),
        };
        let create = match (self.create, self.create_new) {
            (_, true) => CreateMode::Exclusive,
            (true, false) => CreateMode::Missing,
            (false, false) => CreateMode::Never,
        };
        if !self.write && (self.truncate || create != CreateMode::Never) {
            return Err(Error::Options("who creates or truncates a file has to open it for writing"));
        }
        let (mode, layout_request) = (self.mode, self.layout_request);
        Ok((Request::Open { path, access, create, mode, layout_request }, access))
    }
}
