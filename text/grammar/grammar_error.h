// SPDX-License-Identifier: Apache-2.0
#ifndef COORDGEN_TEXT_GRAMMAR_ERROR_H
#define COORDGEN_TEXT_GRAMMAR_ERROR_H

/* Conditions of the whole room. */
enum {
    GRAMMAR_E_SYNTAX = 1,      /* the source is malformed; the error says where */
    GRAMMAR_E_UNSUPPORTED = 2, /* the source asks for what cannot be followed; the error names it */
    GRAMMAR_E_TOO_COMPLEX = 3, /* a limit on memory, parts or fuel is reached */
    GRAMMAR_E_NOTHING = 4,     /* no text fits the grammar */
};

#endif
