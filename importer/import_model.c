// SPDX-License-Identifier: Apache-2.0
#include "importer/import_model.h"

ImportLinear *import_linear_of(const ImportLayer *layer, TensorRole role) {
    for (size_t i = 0; i < layer->n_linears; i++)
        if (layer->linears[i].role == role)
            return &layer->linears[i];
    return NULL;
}

size_t import_n_channels(const ImportModel *model) {
    size_t n = 0;

    for (size_t i = 1; i <= model->hparams.n_layers; i++)
        for (size_t j = 0; j < model->layers[i].n_linears; j++)
            n += model->layers[i].linears[j].n;
    return n;
}
