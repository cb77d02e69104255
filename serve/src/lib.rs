//! A modelled drive as a network block device: data at full speed, completions at the model's times.
