//! A cache of the views that clients have sent, by their content hash: the most recently used ones, in bounded memory.
//!
//! A view has no owner. A client whose request names a view that was dropped sends the view again.

use std::collections::HashMap;
use std::sync::Arc;

use pario_layout::StripedView;
use pario_runtime::sync::Mutex;

use crate::error::{Error, Result};

pub(crate) struct ViewCache {
    most: usize,
    most_bytes: usize,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    known: HashMap<u128, CachedView>,
    bytes: usize,
    clock: u64,
}

struct CachedView {
    view: Arc<StripedView>,
    bytes: usize,
    used: u64,
}

impl ViewCache {
    /// Keeps at most `most` views of at most `most_bytes` bytes, and in any case the last one.
    pub fn new(most: usize, most_bytes: usize) -> ViewCache {
        ViewCache { most, most_bytes, inner: Mutex::default() }
    }

    pub fn get(&self, hash: u128) -> Option<Arc<StripedView>> {
        let mut inner = self.inner.lock();
        inner.clock += 1;
        let clock = inner.clock;
        let is_wrong = pario_runtime::is_planted("wrong-view");
        let hash = if is_wrong { *inner.known.keys().max()? } else { hash };
        let known = inner.known.get_mut(&hash)?;
        known.used = clock;
        Some(Arc::clone(&known.view))
    }

    /// Adds a view after a check of its hash.
    pub fn put(&self, hash: u128, bytes: &[u8]) -> Result<()> {
        if self.get(hash).is_some() {
            return Ok(());
        }
        let view = StripedView::from_bytes(bytes).map_err(|_| Error::BadRequest("view"))?;
        if view.hash() != hash {
            return Err(Error::BadRequest("view and its hash"));
        }
        let bytes = view.memory();
        let mut inner = self.inner.lock();
        inner.clock += 1;
        let known = CachedView { view: Arc::new(view), bytes, used: inner.clock };
        let before = inner.known.insert(hash, known).map_or(0, |before| before.bytes);
        inner.bytes = inner.bytes + bytes - before;
        while inner.known.len() > 1 && (inner.known.len() > self.most || inner.bytes > self.most_bytes) {
            inner.drop_oldest();
        }
        Ok(())
    }
}

impl Inner {
    fn drop_oldest(&mut self) {
        let oldest = self.known.iter().min_by_key(|(_, known)| known.used).map(|(hash, _)| *hash);
        if let Some(known) = oldest.and_then(|hash| self.known.remove(&hash)) {
            self.bytes -= known.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pario_layout::Striping;

    /// A view of a file in stripes of so many bytes.
    fn view(stripe: u64) -> (u128, Vec<u8>) {
        let striping = Striping::new(stripe, 1, 0, 1).expect("sound");
        let mut bytes = [&stripe.to_le_bytes()[..], &[1, 0, 0, 0, 1, 0], &[0; 8]].concat();
        // One byte at 0, again and again: version, displacement, bound, extent, one node, a block.
        bytes.extend([1, 0, 0, 2, 1, 0, 1, 0, 1, 1]);
        let seen = StripedView::from_bytes(&bytes).expect("a view");
        assert_eq!(*seen.striping(), striping);
        (seen.hash(), bytes)
    }

    #[test]
    fn the_least_recently_used_view_is_dropped() {
        let views = ViewCache::new(2, 1 << 20);
        let all: Vec<_> = (1..4).map(view).collect();
        for (hash, bytes) in &all[..2] {
            views.put(*hash, bytes).expect("taken");
        }
        assert!(views.get(all[0].0).is_some());
        views.put(all[2].0, &all[2].1).expect("taken");
        let known: Vec<bool> = all.iter().map(|(hash, _)| views.get(*hash).is_some()).collect();
        assert_eq!(known, [true, false, true]);
    }

    #[test]
    fn the_last_view_stays_whatever_the_limits() {
        let views = ViewCache::new(0, 0);
        for (hash, bytes) in (1..4).map(view) {
            views.put(hash, &bytes).expect("taken");
            assert!(views.get(hash).is_some());
            assert_eq!(views.inner.lock().known.len(), 1);
        }
    }

    #[test]
    fn a_view_with_a_wrong_hash_is_refused() {
        let views = ViewCache::new(9, 1 << 20);
        let ((_, bytes), (other, _)) = (view(1), view(2));
        assert!(matches!(views.put(other, &bytes), Err(Error::BadRequest(_))));
        assert!(matches!(views.put(other, &bytes[..9]), Err(Error::BadRequest(_))));
        assert!(views.get(other).is_none());
    }
}
