//! Converts the measurements of a replay into the figures that are stored and printed.

use schedulers::RuleInfo;
use traces::results::{ClassFigures, QueueFigures, Ratio, RuleFigures, Run, Status, VmFigures};
use traces::{Nanos, SECTOR_BYTES};

use crate::metrics::{Class, ClassMetrics, Metrics};

impl ClassMetrics {
    /// The figures of the class over a run of this span.
    pub fn figures(&self, span: Nanos) -> ClassFigures {
        let seconds = span.as_s_f64();
        let per_s = |count: f64| if seconds > 0.0 { count / seconds } else { 0.0 };
        let per_device = |sum: f64| (self.device.count > 0).then(|| sum / self.device.count as f64);
        ClassFigures {
            requests: self.response.count(),
            bytes: self.bytes,
            device_requests: self.device.count,
            device_time: self.device.moments(),
            dispatch_to_completion: self.dispatch_to_completion.moments(),
            response_time: self.response.moments(),
            response_percentiles_ns: self.response.percentiles_ns(),
            iops: per_s(self.response.count() as f64),
            bytes_per_s: per_s(self.bytes as f64),
            sectors_per_ms: per_s((self.bytes / SECTOR_BYTES) as f64) / 1000.0,
            seek_distance_mean_sectors: per_device(self.seek_sectors as f64),
            cache_hit_share: per_device(self.hits as f64),
        }
    }
}

impl Metrics {
    /// The figures of the whole run and, if VMs were measured separately, of each of `vms` over the time in which it was
    /// measured.
    pub fn run(&self, scheduler: traces::results::Part, status: Status, vms: &[String]) -> Run {
        let span = self.span();
        let totals = [Class::Read, Class::Write, Class::Other].map(|class| self.total(class));
        let [read, write, all, other] = classes(totals.each_ref(), span);
        let per_vm = |index: usize, name: &String| -> Option<VmFigures> {
            let classes_of = [Class::Read, Class::Write, Class::Other].map(|class| self.vm(index, class));
            let [read, write, other] = classes_of;
            let [read, write, all, other] = classes([read?, write?, other?], self.active_span());
            let (span_ns, end_ns) = (self.active_span(), self.vm_end(index).unwrap_or_default());
            Some(VmFigures { vm: name.clone(), span_ns, end_ns, read, write, all, other })
        };
        Run {
            scheduler,
            drive: String::new(),
            status,
            offered_load: None,
            span_ns: span,
            read,
            write,
            all,
            other,
            queue: self.queue(span),
            rules: Vec::new(),
            vms: vms.iter().enumerate().filter_map(|(index, name)| per_vm(index, name)).collect(),
            stack: None,
            journal_commits: None,
            live: None,
            history: None,
            ratio: None,
            notes: Vec::new(),
        }
    }

    fn queue(&self, span: Nanos) -> QueueFigures {
        QueueFigures {
            outstanding_mean: self.outstanding.mean(span),
            outstanding_max: self.outstanding.max(),
            waiting_mean: self.waiting.mean(span),
            waiting_max: self.waiting.max(),
            drive_utilisation: self.at_drive.busy_share(span),
            merged: self.merged,
            dispatches: self.dispatches,
            choices: self.choices,
        }
    }
}

/// The figures of reads, of writes, of both together and of other operations.
fn classes(measured: [&ClassMetrics; 3], span: Nanos) -> [ClassFigures; 4] {
    let [read, write, other] = measured;
    let mut all = read.clone();
    all.merge(write);
    [read.figures(span), write.figures(span), all.figures(span), other.figures(span)]
}

/// How many requests each of `rules` has sent, by the counts of one scheduler or of several that have these rules.
pub fn rules<'a>(rules: &[RuleInfo], counts: impl IntoIterator<Item = &'a [u64]>) -> Vec<RuleFigures> {
    let mut sent = vec![0; rules.len()];
    for of_one in counts {
        sent.iter_mut().zip(of_one).for_each(|(sum, count)| *sum += count);
    }
    let all: u64 = sent.iter().sum();
    let share = |requests: u64| (all > 0).then(|| requests as f64 / all as f64);
    let figures = |(rule, requests): (&RuleInfo, u64)| RuleFigures {
        name: rule.name.to_owned(),
        requests,
        share: share(requests),
    };
    rules.iter().zip(sent).map(figures).collect()
}

/// The ratios of `run` to `baseline`, if both are comparable.
pub fn ratio(run: &Run, baseline: &Run) -> Option<Ratio> {
    if run.status != Status::Comparable || baseline.status != Status::Comparable {
        return None;
    }
    let over = |a: Option<f64>, b: Option<f64>| a.zip(b).filter(|&(_, b)| b > 0.0).map(|(a, b)| a / b);
    let p99 = |run: &Run| run.all.response_percentiles_ns.get("p99").map(|&ns| ns as f64);
    Some(Ratio {
        response_time_mean: over(run.all.response_time.mean_ns, baseline.all.response_time.mean_ns),
        response_time_p99: over(p99(run), p99(baseline)),
        throughput: over(Some(run.all.bytes_per_s), Some(baseline.all.bytes_per_s)),
    })
}
