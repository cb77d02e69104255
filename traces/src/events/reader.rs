//! Records out of any source of events.

use super::EventSource;
use super::pairing::Pairing;
use super::watch::Watch;
use crate::error::{Problem, ReadError};
use crate::record::Record;
use crate::trace::{ArrivalPoint, Layer, Losses, ReadOptions, TraceMeta, TraceReader};
use crate::units::Timestamp;

/// A trace that is read from events, so that more can be seen than its records.
pub trait EventReader: TraceReader {
    /// As [`TraceReader::next`], with what goes by shown to `watch`.
    ///
    /// # Errors
    /// As [`TraceReader::next`].
    fn next_watched(&mut self, watch: &mut dyn Watch) -> Result<Option<Record>, ReadError>;
}

/// Pairs the events of a source into records.
pub struct PairedReader<S> {
    source: S,
    pairing: Pairing,
    meta: TraceMeta,
    /// Time of the event last taken, nanoseconds since the earliest.
    now: u64,
    ended: bool,
}

impl<S: EventSource> PairedReader<S> {
    /// Reads `source`, a trace of the format of that name.
    pub fn new(mut source: S, format: &str, clock: &str, options: &ReadOptions) -> PairedReader<S> {
        let (usual, arrivals) = match options.arrivals {
            ArrivalPoint::Queued => (Layer::GuestQueue, "Q"),
            ArrivalPoint::Issued => (Layer::GuestIssued, "D"),
        };
        let mut meta = TraceMeta::new(format, options.layer.unwrap_or(usual), clock);
        meta.provenance.insert(format!("{format}.arrivals"), arrivals.to_owned());
        source.describe(&mut meta, false);
        PairedReader { source, pairing: Pairing::new(options.arrivals), meta, now: 0, ended: false }
    }

    #[inline]
    fn advance<W: Watch + ?Sized>(&mut self, watch: &mut W) -> Result<Option<Record>, ReadError> {
        loop {
            if let Some(passage) = self.pairing.next(self.now, self.ended, self.source.losses_mut(), watch) {
                watch.passed(&passage);
                return Ok(Some(passage.record));
            }
            if self.ended {
                return Ok(None);
            }
            if !self.source.advance()? {
                self.finish();
                continue;
            }
            let zero = self.source.zero();
            let (event, losses) = self.source.current();
            self.now = event.time.saturating_sub(zero);
            watch.event(Timestamp::from_ns(self.now), event);
            if let Err(why) = self.pairing.event(event, self.now, losses, watch) {
                self.refuse(why)?;
            }
        }
    }

    /// Completes the metadata at the end of the capture.
    fn finish(&mut self) {
        self.ended = true;
        self.source.describe(&mut self.meta, true);
        let aside = self.pairing.aside();
        let counts = [
            ("merges", aside.merges),
            ("splits", aside.splits),
            ("requeues", aside.requeues),
            ("remaps", aside.remaps),
            ("bounces", aside.bounces),
            ("passthrough_events", aside.passthrough),
            ("requests_without_data", aside.without_data),
            ("driver_data_events", aside.driver_data),
        ];
        for (what, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            self.meta.provenance.insert(format!("{}.{what}", self.meta.format), count.to_string());
        }
    }

    #[cold]
    fn refuse(&mut self, why: String) -> Result<(), ReadError> {
        if self.source.lenient() {
            self.source.losses_mut().skip("request with an impossible address or length");
            return Ok(());
        }
        let (path, place) = self.source.place();
        Err(ReadError::new(path, place, Problem::Malformed(why)).remedy("--lenient leaves it out and counts it"))
    }
}

impl<S: EventSource> TraceReader for PairedReader<S> {
    fn meta(&self) -> &TraceMeta {
        &self.meta
    }

    fn next(&mut self) -> Result<Option<Record>, ReadError> {
        self.advance(&mut ())
    }

    fn losses(&self) -> &Losses {
        self.source.losses()
    }

    fn position_bytes(&self) -> u64 {
        self.source.position_bytes()
    }
}

impl<S: EventSource> EventReader for PairedReader<S> {
    fn next_watched(&mut self, watch: &mut dyn Watch) -> Result<Option<Record>, ReadError> {
        self.advance(watch)
    }
}
