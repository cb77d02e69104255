//! Records out of any source of events.

use super::pairing::Pairing;
use super::watch::{Passage, Watch};
use super::{EventSource, Placed};
use crate::error::{Problem, ReadError};
use crate::formats::check::too_late;
use crate::record::Record;
use crate::statistics::Statistics;
use crate::trace::{ArrivalPoint, Layer, Losses, ReadOptions, TraceMeta, TraceReader};
use crate::units::Timestamp;

/// A trace that is read from events, so that more can be seen than its records.
pub trait EventReader: TraceReader {
    /// As [`TraceReader::next`]; `watch` sees all events and records on the way.
    ///
    /// # Errors
    /// As [`TraceReader::next`].
    fn next_watched(&mut self, watch: &mut dyn Watch) -> Result<Option<Record>, ReadError>;

    /// Goes past the records that leave with the next run of events and counts them; `statistics` sees
    /// them; `None` at the end. As [`EventReader::next_watched`], but
    /// compiled for the statistics and without a stop at each record, which saves most calls.
    ///
    /// # Errors
    /// As [`TraceReader::next`].
    fn measure_run(&mut self, statistics: &mut Statistics) -> Result<Option<u64>, ReadError>;
}

/// Pairs the events of a source into records.
pub struct PairedReader<S> {
    source: S,
    pairing: Pairing,
    meta: TraceMeta,
    /// How many events of the source's run were taken, and up to which they are taken.
    at: usize,
    until: usize,
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
        PairedReader { source, pairing: Pairing::new(options.arrivals), meta, at: 0, until: 0, ended: false }
    }

    #[inline(always)]
    fn advance<W: Watch + ?Sized>(&mut self, watch: &mut W) -> Result<Option<Passage>, ReadError> {
        loop {
            if self.ended || self.pairing.may_give() {
                if let Some(passage) = self.pairing.next(self.ended, self.source.losses_mut(), watch) {
                    watch.passed(&passage);
                    return Ok(Some(passage));
                }
                if self.ended {
                    return Ok(None);
                }
            }
            if !self.take_events(watch)? && !self.next_run()? {
                self.finish();
            }
        }
    }

    /// The next record that can leave so far, of a source that still grows: its
    /// [`EventSource::advance`] says false where there is nothing more yet. [`PairedReader::end`] says that
    /// nothing more will come.
    ///
    /// # Errors
    /// As [`TraceReader::next`].
    pub fn next_so_far(&mut self) -> Result<Option<Record>, ReadError> {
        loop {
            if (self.ended || self.pairing.may_give())
                && let Some(passage) = self.pairing.next(self.ended, self.source.losses_mut(), &mut ())
            {
                return Ok(Some(passage.record));
            }
            if self.ended {
                return Ok(None);
            }
            if !self.take_events(&mut ())? && !self.next_run()? {
                return Ok(None);
            }
        }
    }

    /// Goes past all events that are there so far, of a source that still grows; `watch` sees them, and the records
    /// that leave. After [`PairedReader::end`] it sees the records that are left.
    ///
    /// # Errors
    /// As [`TraceReader::next`].
    pub fn watch_so_far<W: Watch + ?Sized>(&mut self, watch: &mut W) -> Result<(), ReadError> {
        let mut records = 0;
        loop {
            self.pass_run(watch, &mut records)?;
            if !self.next_run()? {
                break;
            }
        }
        if self.ended {
            self.pairing.leave(true, self.source.losses_mut(), watch);
        }
        Ok(())
    }

    /// Goes past the rest of the current run, and counts the records that leave.
    fn pass_run<W: Watch + ?Sized>(&mut self, watch: &mut W, records: &mut u64) -> Result<(), ReadError> {
        let zero = self.source.zero();
        loop {
            let (run, losses) = self.source.run();
            let left = run.get(self.at..self.until).unwrap_or_default();
            let taken = self.pairing.pass(left, zero, losses, watch, records);
            let Some(why) = taken.refused else { return Ok(()) };
            self.at += taken.events;
            self.refuse(why)?;
        }
    }

    /// Nothing more will come from a source that grew.
    pub fn end(&mut self) {
        if !self.ended {
            self.finish();
        }
    }

    /// Gives the oldest record whether or not it is complete, and counts it if it is not: for a reader
    /// that holds up others.
    pub fn give_up_oldest(&mut self) -> Option<Record> {
        self.pairing.next(true, self.source.losses_mut(), &mut ()).map(|passage| passage.record)
    }

    /// No record that is still to come arrives before this; `None` if nothing is known to be on its way.
    pub fn oldest(&self) -> Option<Timestamp> {
        self.pairing.oldest()
    }

    /// The source.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// The source, to be given more events.
    pub fn source_mut(&mut self) -> &mut S {
        &mut self.source
    }

    /// Goes to the next run of events; false at the end of the capture.
    fn next_run(&mut self) -> Result<bool, ReadError> {
        self.at = 0;
        let advanced = self.source.advance();
        let zero = self.source.zero();
        let (run, _) = self.source.run();
        self.until = run.len();
        // Events are in the order of time.
        let last = run.last().map_or(0, |last| last.event.time);
        if last.saturating_sub(zero) > Timestamp::TRACE_MAX.as_ns() {
            self.end_in_time(zero)?;
        }
        advanced
    }

    /// Leaves out the events of the run whose times lie outside the range of times.
    #[cold]
    fn end_in_time(&mut self, zero: u64) -> Result<(), ReadError> {
        let (run, losses) = self.source.run();
        let since_zero = |placed: &Placed| Timestamp::from_ns(placed.event.time.saturating_sub(zero));
        self.until = run.iter().position(|placed| since_zero(placed) > Timestamp::TRACE_MAX).unwrap_or(run.len());
        let Some(first) = run.get(self.until) else { return Ok(()) };
        let (bad, late) = (too_late(since_zero(first)), run.len() - self.until);
        *losses.skipped.entry(bad.reason.to_owned()).or_default() += late as u64;
        if self.source.lenient() {
            return Ok(());
        }
        let (path, place) = self.source.place(self.until);
        Err(ReadError::new(path, place, bad.problem).remedy("--lenient leaves such events out and counts them"))
    }

    /// Takes the events of the current run until a record may leave; false at the end of the run.
    #[inline(always)]
    fn take_events<W: Watch + ?Sized>(&mut self, watch: &mut W) -> Result<bool, ReadError> {
        let zero = self.source.zero();
        let (run, losses) = self.source.run();
        let left = run.get(self.at..self.until).unwrap_or_default();
        let taken = self.pairing.take(left, zero, losses, watch);
        let stopped = taken.events < left.len() || self.pairing.may_give();
        self.at += taken.events;
        if let Some(why) = taken.refused {
            self.refuse(why)?;
        }
        Ok(stopped)
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

    /// The event taken last is no arrival, although its action is one.
    #[cold]
    fn refuse(&mut self, why: String) -> Result<(), ReadError> {
        if self.source.lenient() {
            self.source.losses_mut().skip("request with an impossible address or length");
            return Ok(());
        }
        let (path, place) = self.source.place(self.at - 1);
        Err(ReadError::new(path, place, Problem::Malformed(why)).remedy("--lenient leaves it out and counts it"))
    }
}

impl<S: EventSource> TraceReader for PairedReader<S> {
    fn meta(&self) -> &TraceMeta {
        &self.meta
    }

    fn next(&mut self) -> Result<Option<Record>, ReadError> {
        Ok(self.advance(&mut ())?.map(|passage| passage.record))
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
        Ok(self.advance(watch)?.map(|passage| passage.record))
    }

    fn measure_run(&mut self, statistics: &mut Statistics) -> Result<Option<u64>, ReadError> {
        if self.ended {
            return Ok(None);
        }
        let mut records = 0;
        self.pass_run(statistics, &mut records)?;
        if !self.next_run()? {
            self.finish();
            records += self.pairing.leave(true, self.source.losses_mut(), statistics);
        }
        Ok(Some(records))
    }
}
