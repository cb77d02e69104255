//! The numbers of Tables I to III of Casale et al. 2011, all 72 of them.

/// The numbers of a pair of VMs. Of two values, the first is of reads.
pub(super) struct Pair {
    /// The VMs' names, as the paper writes the pair.
    pub name: &'static str,
    /// Table I: the measured mix, shares.
    pub mix: [f64; 2],
    /// The predicted mix, and the errors.
    pub predicted_mix: [f64; 2],
    pub mix_error: [f64; 2],
    /// Table II: measured requests per second.
    pub rates: [f64; 2],
    /// Predicted requests per second, and the errors.
    pub predicted_rates: [f64; 2],
    pub rate_error: [f64; 2],
    /// Table III, by VM: measured response times, ms.
    pub response: [[f64; 2]; 2],
    /// Predicted response times, ms, and the errors.
    pub predicted_response: [[f64; 2]; 2],
    pub response_error: [[f64; 2]; 2],
}

/// The pairs, in the order of the tables.
pub(super) const PRINTED: [Pair; 3] = [
    Pair {
        name: "File+Mail",
        mix: [0.47, 0.53],
        predicted_mix: [0.49, 0.51],
        mix_error: [0.03, 0.03],
        rates: [293.0, 336.0],
        predicted_rates: [286.0, 307.0],
        rate_error: [0.03, 0.09],
        response: [[35.0, 6.90], [45.5, 7.90]],
        predicted_response: [[36.3, 6.91], [37.6, 12.2]],
        response_error: [[0.04, 0.003], [0.17, 0.55]],
    },
    Pair {
        name: "File+Web",
        mix: [0.72, 0.28],
        predicted_mix: [0.74, 0.26],
        mix_error: [0.03, 0.08],
        rates: [448.0, 176.0],
        predicted_rates: [397.0, 146.0],
        rate_error: [0.12, 0.17],
        response: [[40.3, 9.45], [29.6, 7.19]],
        predicted_response: [[33.6, 10.9], [32.1, 11.1]],
        response_error: [[0.17, 0.16], [0.08, 0.54]],
    },
    Pair {
        name: "Web+Mail",
        mix: [0.58, 0.42],
        predicted_mix: [0.63, 0.36],
        mix_error: [0.10, 0.13],
        rates: [382.0, 280.0],
        predicted_rates: [348.0, 222.0],
        rate_error: [0.09, 0.21],
        response: [[33.0, 7.97], [28.0, 7.03]],
        predicted_response: [[28.2, 12.9], [30.9, 8.48]],
        response_error: [[0.15, 0.62], [0.11, 0.21]],
    },
];
