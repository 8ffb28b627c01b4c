// SPDX-License-Identifier: Apache-2.0
/*
 * Plans the file that graphs of a device are loaded from: an image of the weights, which this load may have to make, or
 * the package. Without a setting it is the file that is loaded sooner (graph_form), or the package if an image has no
 * room on the disk. Nothing of the package comes before a graph is wanted, unless its layers are still to be compared
 * with their checksums: then all layers come once, to where the graphs are.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "weights/graphs/graph_probe.h"
#include "weights/weights_private.h"

static bool is_of_graphs(const PlannedMatrix *planned) {
    return planned->layer >= 0;
}

static size_t packed_bytes_of(const WeightsGraphForm *form) {
    size_t len_bytes = 0;

    for (size_t i = 0; i < form->n_pieces; i++)
        len_bytes += form->pieces[i].len_bytes;
    return len_bytes;
}

/* Estimates the costs of both forms, by a probe of the largest matrix. */
static void find_costs(const WeightsLoader *loader, const WeightsGraphForm *form, GraphFormCosts *costs) {
    const ReadLimit *limit = &loader->options->flash_limit;
    const PlannedMatrix *largest = NULL;
    _cleanup_(freep) char *notes = weights_notes_folder(loader->image_path, "graph-forms");
    size_t n = 0, at = 0, first = 0; /* number of matrices in graphs; index of the largest one; its first piece */
    double n_weights = 0;
    GraphProbe probe;

    *costs = (GraphFormCosts){ .packed_bytes = packed_bytes_of(form) };
    for (size_t i = 0; i < loader->n_matrices; i++) {
        const PlannedMatrix *planned = &loader->matrices[i];

        if (!is_of_graphs(planned))
            continue;
        costs->materialised_bytes += planned->image_bytes;
        n_weights += (double)planned->matrix.n * (double)planned->matrix.k;
        if (!largest || planned->image_bytes > largest->image_bytes) {
            largest = planned;
            at = n;
        }
        n++;
    }
    while (form->pieces[first].matrix != at)
        first++;
    if (!graph_probe(&probe, loader->weights->backend, package_fd(loader->source->package),
                     gguf_path(loader->source->file), &form->pieces[first], form->n_pieces - first, &largest->matrix,
                     largest->image_bytes, notes))
        return;
    costs->bytes_per_s = probe.bytes_per_s;
    if (limit->bytes_per_s && (double)limit->bytes_per_s < costs->bytes_per_s)
        costs->bytes_per_s = (double)limit->bytes_per_s;
    costs->expand_ns = probe.expand_ns_per_weight * n_weights;
}

static void choose_form(WeightsLoader *loader) {
    const WeightsGraphForm *form = &loader->weights->form;
    GraphFormCosts costs;
    GraphFormChoice choice;

    loader->graph_form = loader->options->graphs.form;
    if (loader->graph_form != GRAPH_FORM_AUTO)
        return;
    if (!loader->image_path) { /* there is no folder for an image */
        loader->graph_form = GRAPH_FORM_PACKED;
        return;
    }
    find_costs(loader, form, &costs);
    choice = graph_form_choose(&costs);
    loader->graph_form = choice.form;
    graph_form_explain(&costs, &choice, loader->weights->form.why, sizeof(loader->weights->form.why));
    log_info(TOPIC_ENGINE, "%s: graphs: %s", gguf_path(loader->source->file), loader->weights->form.why);
}

static int cut_pieces(WeightsLoader *loader) {
    _cleanup_(freep) StreamMatrix *matrices = calloc(loader->n_matrices + 1, sizeof(*matrices));
    WeightsGraphForm *form = &loader->weights->form;
    size_t n = 0;
    int r;

    if (!matrices)
        return err_no_memory(loader->err);
    for (size_t i = 0; i < loader->n_matrices; i++)
        if (is_of_graphs(&loader->matrices[i]))
            matrices[n++] = loader->matrices[i].matrix;
    r = graph_pieces_cut(&form->pieces, &form->n_pieces, matrices, n);
    return r == -EINVAL ? err_set(loader->err, BACKEND_E_WEIGHTS,
                                  "%s: the widths of a matrix have no layout: import the "
                                  "model again",
                                  gguf_path(loader->source->file))
           : r          ? err_set(loader->err, r, "out of memory")
                        : 0;
}

int weights_plan_graph_form(WeightsLoader *loader) {
    int r = cut_pieces(loader);

    if (!r)
        choose_form(loader);
    return r;
}
