//! The options of a fio job that are not modelled. Some cannot change the requests, and some are accepted with their
//! default value only. The others are refused, each with its alternative.

/// Options that cannot change the requests, whatever their value. They concern measurements, output, checks beforehand,
/// memory, and the choice among several good random number generators.
const WITHOUT_EFFECT: &[&str] = &[
    "name",
    "rw_sequencer",
    "description",
    "lockfile",
    "opendir",
    "unique_filename",
    "ignore_error",
    "random_generator",
    "file_service_type",
    "openfiles",
    "fallocate",
    "overwrite",
    "clocksource",
    "mem",
    "iomem",
    "hugepage-size",
    "lockmem",
    "cpumask",
    "cpus_allowed",
    "cpus_allowed_policy",
    "numa_cpu_nodes",
    "numa_mem_policy",
    "nice",
    "thinktime_spin",
    "invalidate",
    "create_serialize",
    "create_fsync",
    "create_on_open",
    "allow_file_create",
    "allow_mounted_write",
    "unlink",
    "exitall_on_error",
    "new_group",
    "thread",
    "group_reporting",
    "stats",
    "per_job_logs",
    "write_bw_log",
    "bwavgtime",
    "write_lat_log",
    "write_iops_log",
    "iopsavgtime",
    "log_entries",
    "log_avg_msec",
    "log_hist_msec",
    "log_hist_coarseness",
    "write_hist_log",
    "log_max_value",
    "log_offset",
    "log_prio",
    "log_compression",
    "log_compression_cpus",
    "log_store_compressed",
    "log_unix_epoch",
    "log_alternate_epoch",
    "log_alternate_epoch_clock_id",
    "block_error_percentiles",
    "zero_buffers",
    "refill_buffers",
    "scramble_buffers",
    "buffer_pattern",
    "buffer_compress_percentage",
    "buffer_compress_chunk",
    "dedupe_percentage",
    "dedupe_mode",
    "dedupe_working_set_percentage",
    "dedupe_global",
    "clat_percentiles",
    "lat_percentiles",
    "slat_percentiles",
    "percentile_list",
    "significant_figures",
    "disk_util",
    "gtod_reduce",
    "disable_lat",
    "disable_clat",
    "disable_slat",
    "disable_bw_measurement",
    "disable_bw",
    "gtod_cpu",
    "unified_rw_reporting",
    "continue_on_error",
    "error_dump",
    "uid",
    "gid",
    "unit_base",
    "allrandrepeat",
    "softrandommap",
    "rate_cycle",
    "write_iolog",
    "max_open_zones",
    "job_max_open_zones",
    "serialize_overlap",
];

/// Options that would change the requests and are not modelled, with the alternative.
const REFUSED: &[(&str, &str)] = &[
    ("bsrange", "give the sizes with bssplit"),
    ("verify", "a job of its own can read what another wrote"),
    ("read_iolog", "a replay reads iologs"),
    ("wait_for", "use stonewall"),
    ("include", "copy the other file's sections here"),
];

/// Options that would change the requests, except with this value, which is the default of fio.
const AT_DEFAULT: &[(&str, &str)] = &[
    ("nrfiles", "1"),
    ("sync", "0"),
    ("sync", "none"),
    ("verify", "0"),
    ("exitall", "0"),
    ("atomic", "0"),
    ("pre_read", "0"),
    ("create_only", "0"),
    ("file_append", "0"),
    ("fill_device", "0"),
    ("bs_unaligned", "0"),
    ("zonemode", "none"),
    ("iodepth_batch", "1"),
    ("iodepth_batch_submit", "1"),
    ("iodepth_batch_complete_min", "1"),
    ("io_submit_mode", "inline"),
    ("rate_process", "linear"),
    ("rate_ignore_thinktime", "0"),
    ("thinktime_blocks_type", "complete"),
    ("thinktime_iotime", "0"),
    ("trim_percentage", "0"),
    ("write_barrier", "0"),
];

/// Whether an option is accepted although it is not modelled; `None` if the option is not known.
pub(super) fn judge(name: &str, value: &str) -> Option<Result<(), String>> {
    if WITHOUT_EFFECT.contains(&name) || AT_DEFAULT.contains(&(name, value)) {
        return Some(Ok(()));
    }
    if let Some((_, instead)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
        return Some(Err(format!("`{name}` is not modelled; {instead}")));
    }
    let (_, default) = AT_DEFAULT.iter().find(|(known, _)| *known == name)?;
    Some(Err(format!("`{name}` is modelled with {name}={default} only")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_may_have_its_default_or_is_refused_with_a_remedy() {
        assert_eq!(judge("nrfiles", "1"), Some(Ok(())));
        assert_eq!(judge("nrfiles", "2"), Some(Err("`nrfiles` is modelled with nrfiles=1 only".to_owned())));
        assert_eq!(judge("verify", "0"), Some(Ok(())));
        assert!(judge("verify", "md5").is_some_and(|judged| judged.is_err()));
        assert_eq!(judge("group_reporting", ""), Some(Ok(())));
        assert_eq!(judge("bs", "4k"), None);
    }
}
