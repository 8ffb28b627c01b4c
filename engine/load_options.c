// SPDX-License-Identifier: Apache-2.0
#include "engine/load_options.h"

#include "base/system/thread.h"

unsigned int load_options_threads(const LoadOptions *load) {
    const unsigned int n = thread_n_processors();

    if (load->threads)
        return load->threads;
    return engine_device(load->device)->has_graphs && n > 1 ? n - 1 : n;
}
