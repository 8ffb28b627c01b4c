// SPDX-License-Identifier: Apache-2.0
/* Grammars of any shape against a table of all spans (part_program.h). */
#undef NDEBUG
#include <stdlib.h>

#include "test/unit/text/grammar/grammar_fixture.h"
#include "test/unit/text/grammar/part_program.h"

static void test_parts_random(void **state) {
    _cleanup_(token_trie_unrefp) TokenTrie *trie = program_trie();
    const char *n_wanted = getenv("COORDGEN_LONG") ? "300000" : "6000";
    uint64_t seed = 88172645463325252u;

    for (unsigned long i = 0, n = strtoul(n_wanted, NULL, 10); i < n; i++) {
        uint8_t bytes[96];
        Program program;

        for (size_t k = 0; k < sizeof(bytes); k++) {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            bytes[k] = (uint8_t)(seed >> 24);
        }
        program_read(&program, (ProgramBytes){ bytes, 20 + i % (sizeof(bytes) - 20) });
        program_check(&program, trie);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_parts_random) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
