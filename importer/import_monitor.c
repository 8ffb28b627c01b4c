// SPDX-License-Identifier: Apache-2.0
#include "importer/import_monitor.h"

#include "base/min_max.h"

const char *import_stage_name(ImportStage stage) {
    static const char *const names[] = { "hashing", "waiting", "measuring", "resuming", "converting", "writing" };

    return names[stage];
}

bool import_monitor_is_cancelled(const ImportMonitor *monitor) {
    return monitor->cancelled && atomic_load_explicit(monitor->cancelled, memory_order_relaxed);
}

int import_monitor_cancelled(const ImportMonitor *monitor, ErrText *err) {
    return err_set(err, IMPORT_E_CANCELLED, "%s: the import was cancelled", monitor->source_path);
}

int import_monitor_check(const ImportMonitor *monitor, ErrText *err) {
    return import_monitor_is_cancelled(monitor) ? import_monitor_cancelled(monitor, err) : 0;
}

void import_monitor_tell(const ImportMonitor *monitor) {
    if (monitor->fn)
        monitor->fn(monitor->arg, &monitor->progress);
}

void import_monitor_part(ImportMonitor *monitor, double done) {
    double part = done < 0 ? 0 : MIN(1, done);

    monitor->progress.done_bytes = monitor->part_begin_bytes + (uint64_t)(part * (double)monitor->part_bytes);
    import_monitor_tell(monitor);
}

void import_monitor_stage(ImportMonitor *monitor, ImportStage stage, uint64_t begin_bytes, uint64_t part_bytes,
                          uint64_t total_bytes) {
    monitor->part_begin_bytes = begin_bytes;
    monitor->part_bytes = part_bytes;
    monitor->progress.stage = stage;
    monitor->progress.total_bytes = total_bytes;
    import_monitor_part(monitor, 0);
}
