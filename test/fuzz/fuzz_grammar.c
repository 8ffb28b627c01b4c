// SPDX-License-Identifier: Apache-2.0
/* Grammars of parts in any order, against a table of all spans of a short text. */
#undef NDEBUG
#include "test/unit/text/grammar/part_program.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes) {
    static TokenTrie *trie;
    Program program;

    if (!trie)
        trie = program_trie();
    program_read(&program, (ProgramBytes){ data, len_bytes });
    program_check(&program, trie);
    return 0;
}
