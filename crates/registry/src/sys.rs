//! The addresses of network interfaces: neither the standard library nor rustix has `getifaddrs`.

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The addresses of a network interface of this host, in the kernel's order; none if there is no such
/// interface.
pub fn interface_addresses(name: &str) -> io::Result<Vec<IpAddr>> {
    let mut found = Vec::new();
    let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the call fills in a list that stays valid until it is freed below; each entry's name is a C
    // string, and its address, if there is one, is of the type that its family says.
    unsafe {
        if libc::getifaddrs(&mut list) != 0 {
            return Err(io::Error::last_os_error());
        }
        let mut next = list;
        while let Some(entry) = next.as_ref() {
            next = entry.ifa_next;
            if entry.ifa_addr.is_null() || CStr::from_ptr(entry.ifa_name).to_bytes() != name.as_bytes() {
                continue;
            }
            match i32::from((*entry.ifa_addr).sa_family) {
                libc::AF_INET => {
                    let address = &*entry.ifa_addr.cast::<libc::sockaddr_in>();
                    found.push(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)).into());
                }
                libc::AF_INET6 => {
                    let address = &*entry.ifa_addr.cast::<libc::sockaddr_in6>();
                    found.push(Ipv6Addr::from(address.sin6_addr.s6_addr).into());
                }
                _ => {}
            }
        }
        libc::freeifaddrs(list);
    }
    Ok(found)
}
