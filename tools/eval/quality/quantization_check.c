// SPDX-License-Identifier: Apache-2.0
#include "tools/eval/quality/quantization_check.h"

#include "tools/eval/eval.h"

/* Generated from tools/eval/quality/sample.txt by the Makefile. */
static const unsigned char own_text[] = {
#include "tools/eval/quality/sample_bytes.inc"
};

QuantizationHarm quantization_harm_of(double nats) {
    if (nats < 0.01)
        return QUANTIZATION_HARM_NONE;
    if (nats < 0.05)
        return QUANTIZATION_HARM_LITTLE;
    return nats < 0.2 ? QUANTIZATION_HARM_SOME : QUANTIZATION_HARM_MUCH;
}

const char *quantization_harm_name(QuantizationHarm harm) {
    static const char *const names[] = { "none", "little", "some", "much" };

    return names[harm];
}

/**
 * quantization_check() - measure the divergence of a package from its source
 *
 * The caller makes sure that the package was made of this source. Memory holds the package's weights and the page
 * cache's part of the mapped source. Nearly all of the time is spent on the reference device.
 */
int quantization_check(Divergence *result, const QuantizationCheckOptions *options, ErrText *err) {
    const EvalModelOptions served = { .path = options->package,
                                      .threads = options->n_threads,
                                      .engine = { .device = ENGINE_DEVICE_CPU, .isa = ISA_BEST } };
    const EvalModelOptions exact = { .path = options->source,
                                     .threads = options->n_threads,
                                     .engine = { .device = ENGINE_DEVICE_REFERENCE, .isa = ISA_BEST } };
    _cleanup_(eval_model_close) EvalModel package = { 0 }, source = { 0 };
    _cleanup_(text_windows_deinit) TextWindows windows = { 0 };
    int r = eval_model_open(&package, &served, err);

    if (!r)
        r = eval_model_open(&source, &exact, err);
    if (r)
        return r;
    if (options->text)
        r = text_windows_init(&windows, package.engine, options->text, QUANTIZATION_CHECK_WINDOW, options->n_windows,
                              err);
    else
        r = text_windows_of(&windows, package.engine, "the text of coordgen", (const char *)own_text, sizeof(own_text),
                            QUANTIZATION_CHECK_WINDOW, options->n_windows, err);
    return r ? r
             : divergence_measure(result, package.engine, source.engine, &windows, options->progress,
                                  options->progress_arg, err);
}
