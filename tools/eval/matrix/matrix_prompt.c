// SPDX-License-Identifier: Apache-2.0
#include "tools/eval/matrix/matrix_prompt.h"

#include <errno.h>
#include <string.h>

#include "engine/constraint/constraint_spec.h"

/* The project's own words, long enough that the largest chunk of the matrix cuts them. */
static const char passage[] =
    "The harbour office kept two clocks. One hung over the counter, where the captains could see it, and was wound "
    "every morning by the clerk who came first; the other stood in the back room beside the tide tables and was never "
    "touched. When the two disagreed, and they did so more often than anyone liked to say, the rule was simple: the "
    "ships went by the clock in front and the ledger went by the clock behind. A stranger would have called it a "
    "mistake. The clerks called it a boundary, because a ship wants to know how late it is, and a ledger wants to know "
    "what came first.\n\n"
    "In the winter of the long fog a young engineer was sent to put an end to it. She measured both clocks for a "
    "month, wrote down each difference, and found that neither was wrong by itself: the one in front was warmed by the "
    "stove, the one behind was cooled by the river wall, and both kept excellent time for the room they stood in. "
    "\"You do not have two clocks,\" she told them, \"you have one clock and two temperatures.\" So they moved the "
    "stove. ";

int matrix_prompt(const Tokenizer *tokenizer, TokenList *prompt, ErrText *err) {
    int r = 0;

    /* The prompt repeats the passage until it exceeds the largest chunk. */
    while (!r && prompt->n < PROMPT_WHOLE)
        r = tokenizer_encode(tokenizer, passage, sizeof(passage) - 1, 0, prompt, err);
    if (!r && prompt->n > PROMPT_WHOLE)
        prompt->n = PROMPT_WHOLE;
    return r;
}

/* Some of its bytes are forced, some are chosen among few, and strings are free but for their length. Answers are
 * longer than those of a short matrix. */
static const char schema[] =
    "{\"type\": \"object\", \"properties\": {"
    "\"office\": {\"type\": \"string\", \"minLength\": 12, \"maxLength\": 60}, "
    "\"clocks\": {\"type\": \"array\", \"minItems\": 2, \"maxItems\": 4, "
    "\"items\": {\"type\": \"object\", \"properties\": {"
    "\"room\": {\"enum\": [\"front\", \"back\"]}, "
    "\"minutes\": {\"type\": \"integer\", \"minimum\": -90, \"maximum\": 90}, "
    "\"is_warm\": {\"type\": \"boolean\"}}, \"required\": [\"room\", \"minutes\", \"is_warm\"], "
    "\"additionalProperties\": false}}}, \"required\": [\"office\", \"clocks\"], \"additionalProperties\": false}";

int matrix_schema(Engine *engine, Constraint **constraintp, ErrText *err) {
    const ConstraintSpec spec = { .form = CONSTRAINT_FORM_JSON_SCHEMA, .text = schema, .n_bytes = sizeof(schema) - 1 };
    _cleanup_(grammar_unrefp) Grammar *grammar = NULL;
    int r = constraint_spec_compile(&spec, &CONSTRAINT_LIMITS, &grammar, err);

    if (!r)
        r = constraint_spec_build(&spec, grammar, engine, constraintp, err);
    return r > 0 ? -EPROTO : r;
}
