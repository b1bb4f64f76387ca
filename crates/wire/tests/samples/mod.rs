//! Random messages from a seed: for the property tests and for `examples/fuzz_codec.rs`.

use pario_layout::{PlacementMapId, Striping};
use pario_types::{
    ClientId, Epoch, ErrorKind, FileId, PartitionId, RequestId, ServerId, Stamp, TruncationId,
};
use pario_wire::Envelope;
use pario_wire::greeting::{Greeting, HandshakeRefusal, Hello, Prefix, Role, Welcome};
use pario_wire::message::{
    AcquireIntent, Attributes, BlockRange, BlockSlot, ByteRange, ByteSelection, CloseReport, CounterChange,
    CreateMode, DirectoryEntry, Failure, FileSize, Inode, InodeKind, LayoutRequest, LeaseCounters,
    LeaseRecall, LocalPart, NamespaceCounters, OpenAccess, OpenFileEntry, PoolStatus, PrefetchCounters,
    RangeLockCounters, Reply, Request, ServerMember, ServerSet, ServerStatus, StorageCounters, StorageSpace,
    TrafficCounters,
};
use pario_wire::{Nonce, Protection, Secret, Transcript};

/// Makes random messages.
pub struct RandomMessages(fastrand::Rng);

impl RandomMessages {
    /// The messages of this seed.
    pub fn new(seed: u64) -> RandomMessages {
        RandomMessages(fastrand::Rng::with_seed(seed))
    }

    pub fn next(&mut self) -> u64 {
        self.0.u64(..)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// A number, often a small one.
    pub fn number(&mut self) -> u64 {
        let bits = self.below(64);
        self.next() >> bits
    }

    fn small(&mut self) -> u32 {
        self.number() as u32
    }

    fn wide(&mut self) -> u128 {
        u128::from(self.next()) << 64 | u128::from(self.next())
    }

    pub fn coin(&mut self) -> bool {
        self.below(2) == 1
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize].clone()
    }

    fn maybe<T>(&mut self, make: impl FnOnce(&mut RandomMessages) -> T) -> Option<T> {
        if self.coin() { Some(make(self)) } else { None }
    }

    fn list<T>(&mut self, make: impl FnMut(&mut RandomMessages) -> T) -> Vec<T> {
        let mut make = make;
        (0..self.below(6)).map(|_| make(self)).collect()
    }

    fn text(&mut self) -> String {
        let letters: Vec<char> = "a/.ö\0\n漢🦀 ".chars().collect();
        (0..self.below(30)).map(|_| self.pick(&letters)).collect()
    }

    fn access(&mut self) -> OpenAccess {
        self.pick(&[OpenAccess::Read, OpenAccess::Write, OpenAccess::Both])
    }

    fn file(&mut self) -> FileId {
        FileId(self.number())
    }

    fn truncation(&mut self) -> TruncationId {
        TruncationId(self.number())
    }

    fn stamp(&mut self) -> Stamp {
        Stamp(self.next() as i64 >> self.below(64))
    }

    fn range(&mut self, most: u64) -> ByteRange {
        ByteRange { at: self.number() >> 2, len: self.below(most) }
    }

    fn what(&mut self) -> ByteSelection {
        if self.coin() {
            return ByteSelection::Ranges(self.list(|d| d.range(1 << 20)));
        }
        let bytes = self.below(8 << 20);
        ByteSelection::View {
            view: self.wide(),
            at: self.number() >> 2,
            len: bytes + self.below(1 << 40),
            bytes,
        }
    }

    fn block_range(&mut self) -> BlockRange {
        BlockRange { first: self.number() >> 1, count: self.small() }
    }

    fn table(&mut self) -> PlacementMapId {
        PlacementMapId { hash: self.wide(), len: self.below(4 << 20) as u32 }
    }

    fn attributes(&mut self) -> Attributes {
        let servers = self.below(u64::from(u16::MAX)) as u16 + 1;
        let (count, first) = (self.below(servers.into()) as u16 + 1, self.below(servers.into()) as u16);
        Attributes {
            file: self.file(),
            kind: self.pick(&[InodeKind::File, InodeKind::Directory]),
            mode: self.small(),
            size: if self.coin() {
                FileSize::Known(self.number())
            } else {
                FileSize::Ask { seen: self.number() }
            },
            accessed: self.stamp(),
            modified: self.stamp(),
            changed: self.stamp(),
            created: self.stamp(),
            striping: Striping::new(self.below(1 << 40) + 1, count, first, servers).expect("sound"),
            table: self.maybe(RandomMessages::table),
            truncating: self.maybe(RandomMessages::number),
            opens: self.small(),
            entries: self.number(),
        }
    }

    fn space(&mut self) -> StorageSpace {
        StorageSpace { total: self.number(), free: self.number(), used: self.number(), parts: self.number() }
    }

    fn leases(&mut self) -> LeaseCounters {
        LeaseCounters {
            teams: self.small(),
            mailboxes: self.small(),
            requests: self.number(),
            grants: self.number(),
            conflicts: self.number(),
            revocations: self.number(),
            waits: self.number(),
            cut_off: self.number(),
        }
    }

    fn range_locks(&mut self) -> RangeLockCounters {
        RangeLockCounters {
            requests: self.number(),
            grants: self.number(),
            conflicts: self.number(),
            waits: self.number(),
        }
    }

    fn server_set(&mut self) -> ServerSet {
        let member = |d: &mut RandomMessages| ServerMember {
            place: d.text(),
            addresses: d.list(RandomMessages::text),
        };
        ServerSet { epoch: Epoch(self.number()), servers: self.list(member) }
    }

    fn status(&mut self) -> ServerStatus {
        ServerStatus {
            pid: self.small(),
            started: self.stamp(),
            epoch: Epoch(self.number()),
            traffic: TrafficCounters {
                sessions: self.small(),
                local_sessions: self.small(),
                requests: self.number(),
                forwarded: self.number(),
                refused: self.number(),
                errors: self.number(),
                read_bytes: self.number(),
                written_bytes: self.number(),
            },
            pool: self.pool(),
            storage: StorageCounters {
                flushed_blocks: self.number(),
                flush_errors: self.number(),
                filled_blocks: self.number(),
                read_bytes: self.number(),
                written_bytes: self.number(),
                damaged: self.number(),
            },
            prefetches: PrefetchCounters {
                taken: self.number(),
                refused: self.number(),
                released: self.number(),
                loaded_blocks: self.number(),
                hits: self.number(),
                kept_blocks: self.small(),
            },
            names: NamespaceCounters {
                files: self.number(),
                directories: self.number(),
                open_files: self.number(),
            },
            leases: self.leases(),
            range_locks: self.range_locks(),
            space: self.space(),
            last_errors: self.list(RandomMessages::text),
        }
    }

    fn pool(&mut self) -> PoolStatus {
        PoolStatus {
            block: self.small(),
            slots: self.small(),
            valid_slots: self.small(),
            dirty_slots: self.small(),
            pinned_slots: self.small(),
            high_water: self.small(),
            low_water: self.small(),
            hits: self.number(),
            misses: self.number(),
            evictions: self.number(),
        }
    }

    pub fn envelope(&mut self) -> Envelope {
        Envelope {
            server: ServerId(self.number() as u16),
            id: RequestId(self.number()),
            origin: self.maybe(|d| ClientId(d.wide())),
        }
    }

    /// A request of this number.
    pub fn request(&mut self, kind: u16) -> Request {
        match kind {
            1 => Request::Acquire {
                file: self.file(),
                intent: self.pick(&[AcquireIntent::Read, AcquireIntent::Modify, AcquireIntent::Overwrite]),
                blocks: self.list(RandomMessages::block_range),
                ahead: self.small() as u16,
            },
            2 => Request::Read { file: self.file(), what: self.what() },
            3 => Request::Write { file: self.file(), what: self.what() },
            4 => Request::End { file: self.file() },
            5 => {
                let (file, end) = (self.file(), self.number());
                Request::Truncate { file, end, truncation: self.truncation() }
            }
            6 => Request::Sync { file: self.file(), durable: self.coin() },
            7 => Request::RemoveParts { files: self.list(RandomMessages::file) },
            8 => Request::ListParts { after: self.file(), most: self.small() },
            9 => Request::VerifyBlocks { file: self.file(), from: self.number(), most: self.number() },
            10 => Request::AcceptBlocks { file: self.file(), blocks: self.list(RandomMessages::number) },
            11 => Request::Lock { file: self.file(), range: self.range(1 << 40), exclusive: self.coin() },
            12 => Request::Unlock { lock: self.number() },
            13 => Request::JoinTeam { team: self.wide(), mailbox: ClientId(self.wide()) },
            14 => {
                let ranges = self.list(|d| d.range(1 << 40));
                Request::Lease { team: self.wide(), file: self.file(), ranges }
            }
            15 => Request::PollRecalls { team: self.wide(), anew: self.coin(), wait_ms: self.small() },
            16 => Request::Yield { number: self.number(), gone: self.range(1 << 60) },
            17 => Request::ReleaseLeases { team: self.wide(), file: self.file() },
            18 => Request::CloseMailbox,
            19 => Request::Arrange { file: self.file(), ranges: self.list(|d| d.range(1 << 40)) },
            20 => Request::Fence { file: self.file(), truncation: self.truncation() },
            32 => Request::Ping,
            33 => Request::StorageSpace,
            34 => Request::Status,
            35 => Request::Shutdown,
            36 => Request::SetServers { set: self.server_set() },
            40 => Request::PutView { hash: self.wide(), len: self.below(8 << 20) },
            41 => {
                let changes = [
                    CounterChange::Set(self.number()),
                    CounterChange::Add(self.next() as i64),
                    CounterChange::Drop,
                ];
                Request::Counter { key: self.wide(), change: self.pick(&changes) }
            }
            50 => Request::Prefetch { file: self.file(), ranges: self.list(|d| d.range(1 << 40)) },
            51 => Request::CancelPrefetch { file: self.file(), ranges: self.list(|d| d.range(1 << 40)) },
            52 => {
                let ranges = self.list(|d| d.range(1 << 40));
                Request::TryLock { file: self.file(), ranges, exclusive: self.coin() }
            }
            53 => Request::MarkDivergent { lock: self.number() },
            54 => Request::ListDivergent { file: self.file() },
            55 => Request::Disconnect { client: ClientId(self.number().into()) },
            56 => Request::MarkEqual { file: self.file(), losses: self.number() },
            64 => Request::Lookup { path: self.text() },
            65 => Request::Open {
                path: self.text(),
                access: self.access(),
                create: self.pick(&[CreateMode::Never, CreateMode::Missing, CreateMode::Exclusive]),
                mode: self.small(),
                layout_request: LayoutRequest {
                    stripe: self.number(),
                    count: self.number() as u16,
                    first: self.maybe(|d| d.number() as u16),
                    table: self.maybe(RandomMessages::table),
                },
            },
            66 => Request::Close {
                file: self.file(),
                wrote: self
                    .maybe(|d| CloseReport { size: d.maybe(RandomMessages::number), modified: d.stamp() }),
            },
            67 => {
                let files = self.list(|d| OpenFileEntry { file: d.file(), access: d.access() });
                Request::Reopen { files, repeated: self.number() }
            }
            68 => Request::MakeDirectory { path: self.text(), mode: self.small(), parents: self.coin() },
            69 => Request::RemoveDirectory { path: self.text() },
            70 => Request::Unlink { path: self.text() },
            71 => Request::Rename { from: self.text(), to: self.text(), replace: self.coin() },
            72 => Request::ReadDirectory { path: self.text(), after: self.text(), most: self.small() },
            73 => Request::SetAttributes {
                path: self.text(),
                mode: self.maybe(RandomMessages::small),
                accessed: self.maybe(RandomMessages::stamp),
                modified: self.maybe(RandomMessages::stamp),
            },
            74 => Request::BeginTruncate { file: self.file(), size: self.number() },
            75 => Request::EndTruncate { file: self.file(), truncation: self.truncation() },
            76 => Request::ReportSize { file: self.file(), size: self.number(), seen: self.number() },
            77 => Request::ListInodes { after: self.file(), most: self.small() },
            78 => Request::PutTable { table: self.table() },
            79 => Request::GetTable { table: self.table() },
            80 => Request::AbortTruncate { file: self.file(), truncation: self.truncation() },
            other => panic!("no sample of request {other}: add one here"),
        }
    }

    /// A reply of this number.
    pub fn reply(&mut self, kind: u16) -> Reply {
        match kind {
            1 => Reply::Done,
            2 => Reply::Failed(Failure {
                kind: self.pick(&ErrorKind::ALL),
                errno: self.next() as i32,
                text: self.text(),
            }),
            3 => Reply::Slots(self.list(|d| BlockSlot {
                block: d.number(),
                slot: d.small(),
                generation: d.small(),
                pending: d.coin(),
            })),
            4 => Reply::Data { end: self.number() },
            5 => Reply::End { end: self.number() },
            6 => {
                let parts = self.list(|d| LocalPart { file: d.file(), end: d.number() });
                Reply::Parts { parts, more: self.coin() }
            }
            7 => Reply::Verified {
                damaged: self.list(RandomMessages::number),
                next: self.maybe(RandomMessages::number),
            },
            11 => Reply::Locked { lock: self.number() },
            54 => {
                let ranges = self.list(|d| d.range(1 << 40));
                let clients = self.list(|d| ClientId(d.number().into()));
                Reply::Divergent { ranges, clients, losses: self.number(), unresolved: self.number() }
            }
            14 => Reply::Leased { extents: self.list(|d| d.range(1 << 60)) },
            15 => {
                let recall = |d: &mut RandomMessages| LeaseRecall {
                    number: d.number(),
                    file: d.file(),
                    range: d.range(1 << 40),
                };
                Reply::Recalled { recalls: self.list(recall), good_ms: self.small() }
            }
            33 => Reply::StorageSpace(self.space()),
            34 => Reply::Status(Box::new(self.status())),
            40 => Reply::NoView,
            41 => Reply::Counted { before: self.number() },
            50 => Reply::Prefetched { taken: self.small() },
            64 => Reply::Attributes(self.attributes()),
            65 => Reply::Opened { attributes: self.attributes(), created: self.coin() },
            67 => Reply::Reopened { gone: self.list(RandomMessages::file) },
            72 => {
                let entries = self.list(|d| DirectoryEntry { name: d.text(), attributes: d.attributes() });
                Reply::Entries { entries, more: self.coin() }
            }
            74 => Reply::Truncation { truncation: self.truncation() },
            77 => {
                let inodes =
                    self.list(|d| Inode { parent: d.file(), name: d.text(), attributes: d.attributes() });
                Reply::Inodes { inodes, more: self.coin() }
            }
            78 => Reply::NoTable,
            other => panic!("no sample of reply {other}: add one here"),
        }
    }

    pub fn any_request(&mut self) -> Request {
        let (kind, _) = self.pick(Request::KINDS);
        self.request(kind)
    }

    pub fn any_reply(&mut self) -> Reply {
        let (kind, _) = self.pick(Reply::KINDS);
        self.reply(kind)
    }

    fn nonce(&mut self) -> Nonce {
        Nonce(std::array::from_fn(|_| self.next() as u8))
    }

    pub fn greeting(&mut self) -> Greeting {
        let hello = Hello {
            partition: PartitionId(self.wide()),
            server: ServerId(self.number() as u16),
            servers: self.number() as u16,
            epoch: Epoch(self.number()),
            client: ClientId(self.wide()),
            program: self.number(),
            role: self.pick(&[Role::Client, Role::Peer, Role::Tool]),
            resume_ledger: self.maybe(RandomMessages::small),
        };
        let (nonce, other) = (self.nonce(), self.nonce());
        let protection = self.pick(&[Protection::Authenticated, Protection::Encrypted, Protection::None]);
        let agreed = Transcript { hello, client: nonce, server: other, protection };
        let proof = agreed.prove_server(&Secret::new(self.nonce().0));
        match self.below(5) {
            0 => Greeting::Hello { hello, nonce },
            1 => Greeting::Challenge { nonce, protection, proof },
            2 => Greeting::Answer { proof },
            3 => {
                let welcome = Welcome {
                    block: self.small(),
                    metadata: ServerId(self.number() as u16),
                    epoch: Epoch(self.number()),
                    cache: self.number(),
                    retired: std::array::from_fn(|_| self.number()),
                    ledger: self.maybe(RandomMessages::small),
                };
                Greeting::Welcome { welcome, proof }
            }
            _ => Greeting::Refused(HandshakeRefusal { kind: self.pick(&ErrorKind::ALL), text: self.text() }),
        }
    }

    /// Changes, removes or appends some bytes.
    pub fn spoil(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len() as u64 + 1) as usize;
            match self.below(6) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, self.next() as u8),
                // Wrong lengths of lists are the most dangerous.
                2 if at + 4 <= bytes.len() => bytes[at..at + 4].copy_from_slice(&self.small().to_le_bytes()),
                3 if at < bytes.len() => bytes[at] = self.pick(&[0, 1, 2, 0x7f, 0x80, 0xff]),
                _ if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                _ => {}
            }
        }
    }
}

/// Decodes a greeting from its bytes.
pub fn decode_greeting(bytes: &[u8]) -> Result<Greeting, pario_wire::Error> {
    let (prefix, body) = bytes.split_first_chunk().ok_or(pario_wire::Error::Truncated)?;
    Prefix::decode(prefix)?.greeting(body)
}
