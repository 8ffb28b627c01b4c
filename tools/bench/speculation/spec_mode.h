// SPDX-License-Identifier: Apache-2.0
/* The modes of speculation that `spec` compares: published baselines, single sources, and the service's own choice. */
#ifndef COORDGEN_BENCH_SPEC_MODE_H
#define COORDGEN_BENCH_SPEC_MODE_H

#include "engine/generation.h"

enum {
    SPEC_MODES_MAX = 11,
    SPEC_PLAIN = 0 /* reference of all other modes */
};

typedef struct SpecMode {
    const char *name;
    uint32_t sources; /* bits 1 << SpeculationSource */
    bool is_baseline; /* runs as published: one chain, no control */
    bool is_extra;    /* runs only where it is named: it says something of rows with schemas */
    bool is_free;     /* answers without the rows' schemas and without an end: what a token costs then; its tokens are
                       * others than those of the other modes */
} SpecMode;

extern const SpecMode spec_modes[SPEC_MODES_MAX];

/* Settings of all modes, from the command line. */
typedef struct SpecSettings {
    uint32_t modes;    /* bits 1 << index of the mode; plain is always set */
    uint32_t rows_max; /* 0: as many as there are */
    bool chains, always, controlled;
} SpecSettings;

/* Returns the modes that run where none is named. */
uint32_t spec_modes_default(void);
/* Parses names with commas between. Return: 0, or -EINVAL with a text. */
int spec_modes_parse(const char *text, uint32_t *modesp, ErrText *err);
/* *lab is set, and used as long as the result is. */
GenerationSpeculation spec_mode_speculation(const SpecMode *mode, const SpecSettings *settings, SpecLab *lab);

#endif
