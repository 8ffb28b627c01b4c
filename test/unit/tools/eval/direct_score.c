// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include "test/unit/tools/eval/direct_score.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/min_max.h"

double direct_score(RealModel *model, const uint32_t *ids, size_t n, size_t n_context, bool *greedyp) {
    size_t n_vocab = engine_info(model->engine)->n_vocab;
    _cleanup_(sequence_freep) Sequence *sequence = NULL;
    _cleanup_(freep) float *logits = malloc(n_vocab * sizeof(float));
    double total = 0;
    ErrText err = { 0 };

    assert_non_null(logits);
    if (sequence_new(&sequence, model->engine, n, &err))
        fail_msg("%s", err.text);
    *greedyp = true;
    for (size_t i = 0; i + 1 < n; i++) {
        double max = -INFINITY, sum = 0;
        size_t best = 0;

        assert_int_equal(engine_forward(model->engine, sequence, &ids[i], 1, 1, logits, NULL), 0);
        if (i + 1 < n_context)
            continue;
        for (size_t j = 0; j < n_vocab; j++) {
            best = logits[j] > logits[best] ? j : best;
            max = MAX(logits[j], max);
        }
        for (size_t j = 0; j < n_vocab; j++)
            sum += exp(logits[j] - max);
        total += logits[ids[i + 1]] - (max + log(sum));
        *greedyp = *greedyp && best == ids[i + 1];
    }
    return total;
}
