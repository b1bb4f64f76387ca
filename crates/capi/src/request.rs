//! Testing a request without completing it.
//!
//! The hosts' Test and Wait functions poll Pario's requests by themselves. MPICH's `MPI_Request_get_status` does not,
//! so a program that calls it in a loop would never see its access complete.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use crate::boundary::{export, host_function, unserved};

export! {
    fn MPI_Request_get_status, PMPI_Request_get_status, c"PMPI_Request_get_status"
        (request: usize, flag: *mut c_int, status: *mut c_void) -> c_int
        = |host| {
            host.poll_requests();
            call_host(request, flag, status)
        },
        else unserved();
}

fn call_host(request: usize, flag: *mut c_int, status: *mut c_void) -> c_int {
    type Ask = unsafe extern "C" fn(usize, *mut c_int, *mut c_void) -> c_int;
    static HOST_FUNCTION: OnceLock<Option<usize>> = OnceLock::new();
    let find = || host_function(c"PMPI_Request_get_status").map(|function| function as usize);
    let Some(host_function_ptr) = *HOST_FUNCTION.get_or_init(find) else { return unserved() };
    // SAFETY: the host's function of this name, with the program's own arguments.
    unsafe { std::mem::transmute::<usize, Ask>(host_function_ptr)(request, flag, status) }
}
