//! System calls that the standard library does not offer.
//!
//! Sending always uses `sendmsg` with `MSG_NOSIGNAL`: the library runs in programs of others, where a write to a closed
//! socket would end the program by `SIGPIPE`.
#![allow(unsafe_code)]

use std::io::{self, IoSlice};
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pario_runtime::time::Instant;
use pario_types::ClientId;
use pario_wire::Nonce;

/// The most slices that the system takes at once.
const MOST_SLICES: usize = 1024;

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Registers a function that runs in forked children of this process, in the thread that returns from `fork` there.
pub fn at_fork(child: fn()) {
    static CHILD: AtomicUsize = AtomicUsize::new(0);
    unsafe extern "C" fn run() {
        let child = CHILD.load(Ordering::Relaxed);
        // SAFETY: the function that was stored below, before this one was made known.
        unsafe { mem::transmute::<usize, fn()>(child)() };
    }
    CHILD.store(child as usize, Ordering::Relaxed);
    // SAFETY: the function stays where it is: the library is never unloaded. Should there be no memory for it, children
    // are as they would be without it.
    let _ = unsafe { libc::pthread_atfork(None, None, Some(run)) };
}

/// Replaces a descriptor by one of `/dev/null`, or closes it. For children of a process with several threads.
pub fn make_null(descriptor: RawFd) {
    // SAFETY: the name is a C string; the other calls have no memory involved. All may be called in such children.
    unsafe {
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        if null < 0 || libc::dup3(null, descriptor, libc::O_CLOEXEC) < 0 {
            libc::close(descriptor);
        }
        if null >= 0 {
            libc::close(null);
        }
    }
}

/// This process's effective user.
pub fn own_user() -> u32 {
    // SAFETY: no memory involved; cannot fail.
    unsafe { libc::geteuid() }
}

/// A nonce that was never used before.
pub fn fresh_nonce() -> io::Result<Nonce> {
    let mut bytes = [0u8; 32];
    // SAFETY: the buffer is ours and as long as said.
    let n = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    // Up to 256 bytes come whole or not at all.
    if n == bytes.len() as isize { Ok(Nonce(bytes)) } else { Err(io::Error::last_os_error()) }
}

/// A client id that was never used before.
pub fn fresh_client() -> io::Result<ClientId> {
    let Nonce(bytes) = fresh_nonce()?;
    Ok(ClientId(bytes.iter().take(16).fold(0, |number, byte| number << 8 | u128::from(*byte))))
}

/// Memory for one descriptor as ancillary data, with the alignment of the system.
#[repr(C, align(8))]
struct Control([u8; 64]);

fn message(slices: *const IoSlice<'_>, count: usize) -> libc::msghdr {
    // SAFETY: a msghdr is integers and pointers; all zeros is the empty one.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = slices.cast_mut().cast();
    message.msg_iovlen = count.min(MOST_SLICES) as _;
    message
}

/// Sends bytes; returns the number sent.
pub fn send(socket: BorrowedFd<'_>, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    let message = message(slices.as_ptr(), slices.len());
    send_message(socket, &message)
}

fn send_message(socket: BorrowedFd<'_>, message: &libc::msghdr) -> io::Result<usize> {
    // SAFETY: the message's slices have the layout of iovec (IoSlice promises it) and outlive the call, as
    // does its control memory.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), message, libc::MSG_NOSIGNAL) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
}

/// Sends one byte and with it a descriptor.
pub fn send_descriptor(socket: BorrowedFd<'_>, mark: u8, descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let bytes = [mark];
    let slices = [IoSlice::new(&bytes)];
    let mut control = Control([0; 64]);
    let mut message = message(slices.as_ptr(), 1);
    message.msg_control = control.0.as_mut_ptr().cast();
    // SAFETY: these only compute sizes; the header that they point to lies within `control`, whose 64 bytes
    // are more than CMSG_SPACE of one descriptor, and which is aligned for it.
    unsafe {
        message.msg_controllen = libc::CMSG_SPACE(mem::size_of::<RawFd>() as u32) as _;
        let header = libc::CMSG_FIRSTHDR(&message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(mem::size_of::<RawFd>() as u32) as _;
        ptr::write_unaligned(libc::CMSG_DATA(header).cast::<RawFd>(), descriptor.as_raw_fd());
    }
    match send_message(socket, &message)? {
        1 => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}

/// Receives one byte and its descriptors: `None` at the end of the stream.
pub fn receive_descriptors(socket: BorrowedFd<'_>) -> io::Result<Option<(u8, Vec<OwnedFd>)>> {
    let mut byte = [0u8];
    let mut control = Control([0; 64]);
    let mut iov = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    // SAFETY: a msghdr is integers and pointers; all zeros is the empty one.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &mut iov;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len() as _;
    // SAFETY: byte, iovec and control memory live longer than the call and are as long as said.
    let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, libc::MSG_CMSG_CLOEXEC) };
    if received < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut descriptors = Vec::new();
    // SAFETY: the system filled the control memory; the macros walk within the length it set. Each descriptor
    // in it is new and belongs to nobody but us.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&message);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_RIGHTS {
                let bytes = (*header).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                let data = libc::CMSG_DATA(header).cast::<RawFd>();
                for index in 0..bytes / mem::size_of::<RawFd>() {
                    let raw = ptr::read_unaligned(data.add(index));
                    descriptors.push(OwnedFd::from_raw_fd(raw));
                }
            }
            header = libc::CMSG_NXTHDR(&message, header);
        }
    }
    Ok((received == 1).then_some((byte[0], descriptors)))
}

/// The user and the process at the other end of a Unix socket; process 0 is one that is not visible from here.
pub fn peer(socket: BorrowedFd<'_>) -> io::Result<(u32, u32)> {
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = mem::size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: both pointers are to locals, the length is that of the first.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &mut length,
        )
    })?;
    Ok((credentials.uid, u32::try_from(credentials.pid).unwrap_or(0)))
}

/// Sets a socket option that is a number.
pub fn set_option(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let length = mem::size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the pointer is to a local of the length said.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), length) })?;
    Ok(())
}

/// Waits until one of the events (`POLLIN`, `POLLOUT`) occurs: returns those that have, 0 when the deadline has passed.
pub fn wait(socket: BorrowedFd<'_>, events: libc::c_short, deadline: Instant) -> io::Result<libc::c_short> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        // Rounded up, so as not to spin through the last millisecond.
        let millis = left.saturating_add(Duration::from_nanos(999_999)).as_millis();
        let mut entry = libc::pollfd { fd: socket.as_raw_fd(), events, revents: 0 };
        let timeout = libc::c_int::try_from(millis).unwrap_or(libc::c_int::MAX);
        // SAFETY: one entry, a local.
        match check(unsafe { libc::poll(&mut entry, 1, timeout) }) {
            Ok(0) if Instant::now() < deadline => {}
            Ok(_) => return Ok(entry.revents),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Returns a nonblocking socket that is connected to a Unix path. `WouldBlock`: too many connections wait there already.
pub fn connect_unix(path: &Path) -> io::Result<OwnedFd> {
    let bytes = path.as_os_str().as_bytes();
    // SAFETY: a sockaddr_un is integers; all zeros is an empty one.
    let mut address: libc::sockaddr_un = unsafe { mem::zeroed() };
    if bytes.len() >= address.sun_path.len() || bytes.contains(&0) {
        let most = address.sun_path.len() - 1;
        let text = format!("a socket's path may have {most} bytes and no NUL, this has {}", bytes.len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    for (to, from) in address.sun_path.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no memory involved; the descriptor is new and ours.
    let socket = unsafe { OwnedFd::from_raw_fd(check(libc::socket(libc::AF_UNIX, kind, 0))?) };
    let length = mem::size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: the pointer is to a local of the length said; its path ends with a zero byte.
    check(unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), length) })?;
    Ok(socket)
}
