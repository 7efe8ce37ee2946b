//! The background thread.

use super::shared::Shared;
use std::time::Duration;

impl Shared {
    /// The background thread: syncs buffered writes, links rows, makes checkpoints.
    pub(super) fn work(&self) {
        let pause = Duration::from_millis(self.options.sync_interval_ms.max(1));
        loop {
            {
                let mut stop = self.wake.0.lock();
                if !*stop {
                    self.wake.1.wait_for(&mut stop, pause);
                }
                if *stop {
                    return;
                }
            }
            if self.poisoned.lock().is_some() {
                continue;
            }
            if let Some(log) = &self.log {
                let _ = self.sync_log(log);
            }
            let all: Vec<_> = self.catalog.read().values().cloned().collect();
            for c in all {
                if let Err(e) = c.link(256, self.threads()) {
                    self.poison(&e);
                }
            }
            if self.log.is_some()
                && self.leader.lock().log_bytes_since_checkpoint > self.options.checkpoint_log_bytes
            {
                let _ = self.checkpoint(&mut self.leader.lock());
            }
        }
    }
}
