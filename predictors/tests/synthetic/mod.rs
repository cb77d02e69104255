//! Forecasts of the twin held against synthetic setups; shared by the short and the long tests.
#![allow(dead_code)] // Each of the two uses a part.

use iocast_predictors::synthetic::{Campaign, Ran, SYNTHETIC_SETUPS};
use iocast_predictors::{Isolated, IsolatedTrace, PredictError, build, predictor};
use rayon::prelude::*;
use traces::results::isolation::IsolationProfile;

pub fn forecast(
    alone: &[IsolationProfile],
    traces: &[IsolatedTrace],
) -> Result<iocast_predictors::Consolidation, PredictError> {
    let twin = build(&"twin".parse().unwrap()).unwrap().predictor().unwrap();
    predictor::predict(&*twin, Isolated { profiles: alone, traces })
}

/// The traces of some VMs, followed by those of all others.
pub fn own_then_others(alone: &[Ran], members: &[usize]) -> Vec<IsolatedTrace> {
    let others = (0..alone.len()).filter(|other| !members.contains(other));
    members.iter().copied().chain(others).map(|vm| alone[vm].trace.clone()).collect()
}

/// Absolute relative errors over groups of VMs: of mean read response, of reads/s, and of the 99th percentiles of read
/// and of write response.
#[derive(Default)]
pub struct Errors(pub [Vec<f64>; 4]);

impl Errors {
    pub fn add(&mut self, vm: &iocast_predictors::VmForecast, truth: &IsolationProfile) {
        let of_truth = iocast_predictors::VmForecast::measured(truth);
        let mut add = |place: usize, ours: Option<f64>, truth: Option<f64>| {
            self.0[place].extend(ours.zip(truth).map(|(ours, truth)| (ours / truth - 1.0).abs()));
        };
        add(0, vm.reads.response_ns, of_truth.reads.response_ns);
        add(1, vm.reads.iops, of_truth.reads.iops.filter(|_| truth.reads.requests > 0));
        add(2, vm.reads.percentiles_ns[2], of_truth.reads.percentiles_ns[2]);
        add(3, vm.writes.percentiles_ns[2], of_truth.writes.percentiles_ns[2]);
    }

    pub fn means(&self) -> [f64; 4] {
        self.0.each_ref().map(|errors| errors.iter().sum::<f64>() / errors.len() as f64)
    }
}

/// Adds the errors of all groups of `size` VMs of a setup. The twin gets `all` traces of the setup or only the group's.
pub fn add_errors(errors: &mut Errors, campaign: &Campaign, setup: usize, size: usize, all: bool) {
    let alone = campaign.alone(SYNTHETIC_SETUPS[setup], setup).unwrap();
    let groups: Vec<Vec<usize>> = campaign.groups().into_iter().filter(|members| members.len() == size).collect();
    let forecast_and_truth = |members: &Vec<usize>| {
        let truth = campaign.together(SYNTHETIC_SETUPS[setup], setup, members).unwrap().together;
        let profiles: Vec<IsolationProfile> = members.iter().map(|&vm| alone[vm].profile.clone()).collect();
        let mut traces = own_then_others(&alone, members);
        traces.truncate(if all { alone.len() } else { size });
        (forecast(&profiles, &traces).unwrap(), truth)
    };
    for (together, truth) in groups.par_iter().map(forecast_and_truth).collect::<Vec<_>>() {
        together.vms.iter().zip(&truth).for_each(|(vm, truth)| errors.add(vm, truth));
    }
}

pub fn errors(campaign: &Campaign, setup: usize, size: usize, all: bool) -> [f64; 4] {
    let mut errors = Errors::default();
    add_errors(&mut errors, campaign, setup, size, all);
    errors.means()
}

/// Holds forecasts of pairs of VMs of an array against the truth. Both VMs of a pair find ever more of their reads in
/// the controller's cache; neither isolated trace contains the reason.
pub fn check_reading_ahead(pairs: &[[usize; 2]]) {
    let campaign = Campaign { seed: 7, ..Campaign::default() };
    let alone = campaign.alone(SYNTHETIC_SETUPS[3], 3).unwrap();
    let members = [0, 1, 4];
    for &pair in pairs {
        let truth = campaign.together(SYNTHETIC_SETUPS[3], 3, &pair).unwrap().together;
        let profiles = pair.map(|vm| alone[vm].profile.clone());
        let together = forecast(&profiles, &own_then_others(&alone, &pair)).unwrap();
        for ((vm, truth), member) in together.vms.iter().zip(&truth).zip(pair) {
            let off = vm.reads.response_ns.unwrap() / truth.reads.response_ns.unwrap() - 1.0;
            // The third VM reads sequentially and never waits alone.
            assert!(off.abs() < if members.contains(&member) { 0.22 } else { 0.45 }, "{pair:?}, {member}: {off}");
        }
        assert!(
            together.notes[0].contains("7 members with a stripe unit of 256 KiB")
                && together.notes[0].contains("1024 KiB ahead")
        );
    }
}
