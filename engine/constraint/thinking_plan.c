// SPDX-License-Identifier: Apache-2.0
#include "engine/constraint/thinking_plan.h"

#include <errno.h>
#include <string.h>

#include "text/grammar/grammar_builder.h"

/* --- tokens of the end -------------------------------------------------------------------------------------------- */

/* Whether the tokens stand for a text exactly: a tokenizer may have put a space before it. */
static bool is_exact(const Tokenizer *tokenizer, const TokenList *list, const char *text) {
    _cleanup_(str_buf_deinit) StrBuf pieces = STR_BUF_NULL;

    for (size_t i = 0; i < list->n; i++)
        (void)tokenizer_piece(tokenizer, list->ids[i], true, &pieces);
    return pieces.data && !strcmp(pieces.data, text);
}

/* Writes the end of the thinking as templates have it: a line of its own, and an empty line behind. A tokenizer that
 * puts spaces before texts writes the mark alone. 0, -errno. */
static int end_tokens(const ThinkingMarks *marks, const Tokenizer *tokenizer, TokenList *list) {
    char text[64];
    ErrText err;
    int r;

    snprintf(text, sizeof(text), "\n%s\n\n", marks->close);
    r = tokenizer_encode(tokenizer, text, strlen(text), TOKENIZE_PARSE_SPECIAL, list, &err);
    if (r < 0 || (!r && is_exact(tokenizer, list, text)))
        return r;
    list->n = 0;
    if (thinking_marks_are_tokens(marks))
        return token_list_add(list, marks->close_id);
    r = tokenizer_encode(tokenizer, marks->close, strlen(marks->close), 0, list, &err);
    return r > 0 ? err_fold(r) : r;
}

/* --- grammars ----------------------------------------------------------------------------------------------------- */

/* Makes the grammar of the line breaks that models write behind the thinking: up to two. */
static GrammarPart add_lines(GrammarBuilder *builder) {
    return grammar_part_repeat(builder, grammar_part_bytes(builder, "\n", 1), 0, 2);
}

/* Makes the grammar of a text up to the end mark: nothing of it holds the mark but the end. */
static GrammarPart add_text(GrammarBuilder *builder, const char *mark) {
    const GrammarPart end = grammar_part_bytes(builder, mark, strlen(mark));
    const GrammarPart any = grammar_part_not(builder, grammar_part_nothing(builder));
    const GrammarPart held = grammar_part_sequence(builder, (GrammarPart[]){ any, end, any }, 3);

    return grammar_part_sequence(builder, (GrammarPart[]){ grammar_part_not(builder, held), end }, 2);
}

/* Adds a segment of one of these grammars; @mark: NULL: of line breaks. */
static int add_grammar(ConstraintPlan *plan, const char *mark, uint32_t next, uint32_t *segmentp, ErrText *err) {
    _cleanup_(grammar_builder_freep) GrammarBuilder *builder = NULL;
    Grammar *grammar = NULL;
    int r = grammar_builder_new(&builder, &GRAMMAR_LIMITS_DEFAULT);

    if (!r)
        r = grammar_builder_finish(builder, mark ? add_text(builder, mark) : add_lines(builder), &grammar, err);
    if (r)
        return r < 0 ? r : err_set(err, CONSTRAINT_E_TOO_COMPLEX, "the marks of the thinking make no grammar");
    *segmentp = constraint_plan_add_grammar(plan, grammar, next);
    grammar_unref(grammar);
    return 0;
}

/* --- plans -------------------------------------------------------------------------------------------------------- */

/* Adds the thinking itself: tokens of any kind up to the end mark, which is a token. */
static uint32_t add_free(ConstraintPlan *plan, const ThinkingMarks *marks, uint32_t tokens_max, uint32_t over,
                         uint32_t behind) {
    ConstraintFree *segment = calloc(1, sizeof(*segment));
    uint32_t number;

    if (!segment) {
        plan->failure = err_raise(-ENOMEM);
        return CONSTRAINT_END;
    }
    segment->triggers[0] = (ConstraintTrigger){ .token = marks->close_id, .segment = behind };
    segment->n_triggers = 1;
    segment->tokens_max = tokens_max;
    segment->over = over;
    number = constraint_plan_add_free(plan, segment);
    free(segment);
    return number;
}

uint32_t thinking_plan_add_any(ConstraintPlan *plan, const ThinkingMarks *marks) {
    ConstraintFree *segment = calloc(1, sizeof(*segment));
    uint32_t number;

    if (!segment) {
        plan->failure = err_raise(-ENOMEM);
        return CONSTRAINT_END;
    }
    if (marks->open && thinking_marks_are_tokens(marks))
        segment->triggers[segment->n_triggers++] =
            (ConstraintTrigger){ .token = marks->open_id, .segment = CONSTRAINT_REFUSED };
    segment->is_end_allowed = true;
    segment->tokens_max = UINT32_MAX;
    segment->over = CONSTRAINT_END;
    number = constraint_plan_add_free(plan, segment);
    free(segment);
    return number;
}

int thinking_plan_add(ConstraintPlan *plan, const ThinkingMarks *marks, const Tokenizer *tokenizer, uint32_t tokens_max,
                      uint32_t next, ErrText *err) {
    _cleanup_(token_list_deinit) TokenList end = { 0 };
    const bool are_tokens = marks->open && thinking_marks_are_tokens(marks);
    uint32_t thinking = next, over, behind;
    int r;

    plan->start = next;
    if (!marks->open || !tokens_max)
        return 0;
    r = end_tokens(marks, tokenizer, &end);
    if (!r)
        r = add_grammar(plan, NULL, next, &behind, err);
    if (r)
        return r;
    over = constraint_plan_add_tokens(plan, end.ids, end.n, behind);
    if (are_tokens) {
        thinking = add_free(plan, marks, tokens_max, over, behind);
        plan->start = constraint_plan_add_choice(plan, marks->open_id, thinking, next);
    } else {
        r = add_grammar(plan, marks->close, behind, &thinking, err);
        constraint_plan_set_limit(plan, thinking, tokens_max, over);
    }
    plan->entries[THINKING_INSIDE - 1] = thinking;
    plan->entries[THINKING_BEHIND - 1] = next;
    plan->n_entries = 2;
    return r;
}
