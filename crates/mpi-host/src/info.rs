//! Info objects: reading all pairs, and creating new objects.

use crate::error::HostError;
use crate::handles::{Host, InfoHandle, until_nul};
use std::ffi::{CString, c_char, c_int};

impl Host {
    /// All pairs of an info object, in the host's order; none for `MPI_INFO_NULL`.
    pub fn info_pairs(&self, info: InfoHandle) -> Result<Vec<(String, String)>, HostError> {
        if self.info_is_null(info) {
            return Ok(Vec::new());
        }
        self.plausible_info(info)?;
        let mut keys = 0;
        // SAFETY: a handle by value; writes one int.
        self.check("MPI_Info_get_nkeys", unsafe { (self.f.info_get_nkeys)(info.0, &mut keys) })?;
        let mut pairs = Vec::with_capacity(keys.max(0) as usize);
        for n in 0..keys {
            let key = self.nth_key(info, n)?;
            if let Some(value) = self.value(info, &key)? {
                pairs.push((until_nul(key.as_bytes()), value));
            }
        }
        Ok(pairs)
    }

    fn nth_key(&self, info: InfoHandle, n: c_int) -> Result<CString, HostError> {
        let mut key = vec![0u8; self.constants.number.max_info_key as usize + 1];
        // SAFETY: the buffer has the length that the ABI prescribes.
        let code = unsafe { (self.f.info_get_nthkey)(info.0, n, key.as_mut_ptr().cast::<c_char>()) };
        self.check("MPI_Info_get_nthkey", code)?;
        let end = key.iter().position(|&b| b == 0).unwrap_or(key.len());
        key.truncate(end);
        CString::new(key).map_err(|_| HostError::Text)
    }

    fn value(&self, info: InfoHandle, key: &CString) -> Result<Option<String>, HostError> {
        let mut buffer = vec![0u8; self.constants.number.max_info_val as usize + 1];
        let text = buffer.as_mut_ptr().cast::<c_char>();
        let mut flag = 0;
        if let Some(get) = self.f.info_get_string {
            let mut len = buffer.len() as c_int; // with room for the NUL
            // SAFETY: the buffer has `len` bytes; the key is a string.
            let code = unsafe { get(info.0, key.as_ptr(), &mut len, text, &mut flag) };
            self.check("MPI_Info_get_string", code)?;
        } else {
            let get = self.f.info_get.ok_or(HostError::Missing("MPI_Info_get"))?;
            let len = buffer.len() as c_int - 1; // the host adds a NUL after this many
            // SAFETY: the buffer has `len` + 1 bytes; the key is a string.
            let code = unsafe { get(info.0, key.as_ptr(), len, text, &mut flag) };
            self.check("MPI_Info_get", code)?;
        }
        Ok((flag != 0).then(|| until_nul(&buffer)))
    }

    /// A new info object with these pairs. A pair that exceeds the host's limits on key or value length is left out.
    pub fn new_info<K: AsRef<str>, V: AsRef<str>>(&self, pairs: &[(K, V)]) -> Result<InfoHandle, HostError> {
        let mut raw = 0;
        // SAFETY: writes one handle into a zeroed word.
        self.check("MPI_Info_create", unsafe { (self.f.info_create)(&mut raw) })?;
        let info = InfoHandle(self.handle(raw));
        for (key, value) in pairs {
            if let Err(error) = self.set_pair(info, key.as_ref(), value.as_ref()) {
                // The first error is reported. The object is freed in any case.
                let _ = self.free_info(info);
                return Err(error);
            }
        }
        Ok(info)
    }

    fn set_pair(&self, info: InfoHandle, key: &str, value: &str) -> Result<(), HostError> {
        // The limits count the terminating NUL in Open MPI and the standard ABI.
        let limits = &self.constants.number;
        if key.len() as i64 >= limits.max_info_key || value.len() as i64 >= limits.max_info_val {
            return Ok(());
        }
        let key = CString::new(key).map_err(|_| HostError::Text)?;
        let value = CString::new(value).map_err(|_| HostError::Text)?;
        // SAFETY: a handle by value and two strings.
        self.check("MPI_Info_set", unsafe { (self.f.info_set)(info.0, key.as_ptr(), value.as_ptr()) })
    }

    /// Frees an info object.
    pub fn free_info(&self, info: InfoHandle) -> Result<(), HostError> {
        let mut raw = info.0;
        // SAFETY: a handle variable of ours, overwritten with the null handle.
        self.check("MPI_Info_free", unsafe { (self.f.info_free)(&mut raw) })
    }

    /// A copy of an info object; an empty one for `MPI_INFO_NULL`.
    pub fn dup_info(&self, info: InfoHandle) -> Result<InfoHandle, HostError> {
        if self.info_is_null(info) {
            return self.new_info::<&str, &str>(&[]);
        }
        let mut raw = 0;
        // SAFETY: a handle by value; writes one handle into a zeroed word.
        self.check("MPI_Info_dup", unsafe { (self.f.info_dup)(info.0, &mut raw) })?;
        Ok(InfoHandle(self.handle(raw)))
    }
}
