// SPDX-License-Identifier: Apache-2.0
#include "importer/source_review.h"

#include <string.h>

#include "base/strings/printable.h"
#include "model/hparams/hparams.h"
#include "model/hparams/hparams_keys.h"
#include "model/package/package.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer/tokenizer.h"

typedef struct Review {
    const GgufFile *file;
    SourceReviewFn *fn;
    void *arg;
    const Arch *arch; /* NULL: not known */
    bool is_refused;
} Review;

const char *source_fate_name(SourceFate fate) {
    static const char *const names[] = { "used", "ignored", "refused" };

    return names[fate];
}

static void tell(Review *review, SourceFate fate, const char *kind, const char *name, const char *why) {
    review->is_refused = review->is_refused || fate == SOURCE_REFUSED;
    review->fn(review->arg, fate, kind, name, why);
}

/* Drops the file's name at the beginning of a reason: the caller knows it. */
static const char *without_path(const Review *review, const ErrText *err) {
    const char *path = gguf_path(review->file);
    const size_t n = strlen(path);

    return !strncmp(err->text, path, n) && err->text[n] == ':' ? err->text + n + 2 : err->text;
}

/* --- keys --------------------------------------------------------------------------------------------------------- */

static bool is_one_of(const GgufString *name, const char *const *names, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (strlen(names[i]) == name->len_bytes && !memcmp(names[i], name->data, name->len_bytes))
            return true;
    return false;
}

static bool begins_with(const GgufString *name, const char *prefix) {
    return name->len_bytes > strlen(prefix) && !memcmp(name->data, prefix, strlen(prefix));
}

static bool ends_with(const GgufString *name, const char *end) {
    size_t n = strlen(end);

    return name->len_bytes > n && !memcmp(name->data + name->len_bytes - n, end, n);
}

/* Finds the kind of tokenizer that uses a key, and the reason why another kind does not. */
static void review_tokenizer_key(Review *review, const GgufString *name, const char *shown) {
    enum {
        NEITHER = 0,
        BYTE_LEVEL = 1,
        SENTENCEPIECE = 2,
        BOTH = 3
    };
    static const struct {
        const char *name;
        int used_by;
        const char *why;
    } keys[] = {
        { "tokenizer.ggml.model", BOTH, "" },
        { "tokenizer.ggml.tokens", BOTH, "" },
        { "tokenizer.ggml.token_type", BOTH, "" },
        { "tokenizer.ggml.pre", BYTE_LEVEL, "a tokenizer with scores cuts no words" },
        { "tokenizer.ggml.merges", BYTE_LEVEL, "a tokenizer with scores merges by them" },
        { "tokenizer.ggml.scores", SENTENCEPIECE, "a byte-level tokenizer merges by its list of merges" },
        { "tokenizer.ggml.add_space_prefix", SENTENCEPIECE, "a byte-level tokenizer puts no space before a text" },
        { "tokenizer.ggml.bos_token_id", BOTH, "" },
        { "tokenizer.ggml.eos_token_id", BOTH, "" },
        { "tokenizer.ggml.eot_token_id", BOTH, "" },
        { "tokenizer.ggml.eom_token_id", BOTH, "" },
        { "tokenizer.ggml.unknown_token_id", BOTH, "" },
        { "tokenizer.ggml.padding_token_id", BOTH, "" },
        { "tokenizer.ggml.fim_pre_token_id", BOTH, "" },
        { "tokenizer.ggml.fim_suf_token_id", BOTH, "" },
        { "tokenizer.ggml.fim_mid_token_id", BOTH, "" },
        { "tokenizer.ggml.fim_pad_token_id", BOTH, "" },
        { "tokenizer.ggml.fim_rep_token_id", BOTH, "" },
        { "tokenizer.ggml.fim_sep_token_id", BOTH, "" },
        { "tokenizer.ggml.prefix_token_id", BOTH, "" },
        { "tokenizer.ggml.suffix_token_id", BOTH, "" },
        { "tokenizer.ggml.middle_token_id", BOTH, "" },
        { "tokenizer.ggml.add_bos_token", BOTH, "" },
        { "tokenizer.ggml.add_eos_token", BOTH, "" },
        { "tokenizer.chat_template", BOTH, "" },
        { TOKENIZER_KEY_CHAT_TEMPLATE_TOOLS, BOTH, "" },
        { "tokenizer.chat_templates", NEITHER, "the templates themselves have their names" },
        { "tokenizer.ggml.add_sep_token", NEITHER, "it is for models that compare texts" },
        { "tokenizer.ggml.seperator_token_id", NEITHER, "it is for models that compare texts" },
        { "tokenizer.ggml.mask_token_id", NEITHER, "it is for models that fill gaps" },
        { "tokenizer.ggml.token_type_count", NEITHER, "it is for models that compare texts" },
        { "tokenizer.ggml.remove_extra_whitespaces", NEITHER, "spaces of a text stay as they are" },
        { "tokenizer.ggml.precompiled_charsmap", NEITHER, "characters of a text stay as they are" },
        { "tokenizer.ggml.suppress_tokens", NEITHER, "answers may have these tokens" },
        { "tokenizer.huggingface.json", NEITHER, "the other keys say the same" },
    };
    GgufString model = { 0 };
    int kind;

    (void)gguf_get_string(review->file, "tokenizer.ggml.model", &model, NULL);
    kind = model.len_bytes == 5 && !memcmp(model.data, "llama", 5) ? SENTENCEPIECE : BYTE_LEVEL;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (is_one_of(name, &keys[i].name, 1)) {
            tell(review, keys[i].used_by & kind ? SOURCE_USED : SOURCE_IGNORED, "key", shown,
                 keys[i].used_by & kind ? "" : keys[i].why);
            return;
        }
    if (begins_with(name, TOKENIZER_KEY_CHAT_TEMPLATE_NAMED))
        tell(review, SOURCE_IGNORED, "key", shown, "the template without a name is used, and tool_use with tools");
    else if (begins_with(name, "tokenizer.ggml.") && ends_with(name, "_token_id"))
        tell(review, SOURCE_IGNORED, "key", shown, "such a token is known by its text");
    else
        tell(review, SOURCE_IGNORED, "key", shown, "has no effect here");
}

static void review_other_key(Review *review, const GgufString *name, const char *shown) {
    static const char *const used[] = {
        "general.architecture",
        "general.alignment",
        "general.basename",
        "general.name",
        "general.sampling.temp",
        "general.sampling.top_k",
        "general.sampling.top_p",
        "general.sampling.min_p",
        "general.sampling.penalty_repeat",
        "general.sampling.penalty_last_n",
        "split.count",
        "split.no",
        "split.tensors.count",
    };

    if (is_one_of(name, used, ARRAY_LEN(used)))
        tell(review, SOURCE_USED, "key", shown, "");
    else if (begins_with(name, "general.sampling."))
        tell(review, SOURCE_IGNORED, "key", shown, "this service's sampler has no such step");
    else if (begins_with(name, "general.") || begins_with(name, "quantize."))
        tell(review, SOURCE_IGNORED, "key", shown, "describes the file; the model is the same without it");
    else if (begins_with(name, "tokenizer."))
        review_tokenizer_key(review, name, shown);
    else
        tell(review, SOURCE_IGNORED, "key", shown, "not known here");
}

static void review_keys(Review *review) {
    for (size_t i = 0; i < gguf_n_keys(review->file); i++) {
        const GgufString *name = &gguf_key_at(review->file, i)->name;
        ErrText why = { 0 };
        Printable shown;

        (void)printable(&shown, name->data, name->len_bytes);
        switch (review->arch ? hparams_key_fate(review->file, review->arch, name, &why) : KEY_FATE_OTHER) {
        case KEY_FATE_OTHER:
            review_other_key(review, name, shown.text);
            break;
        case KEY_FATE_READ:
            tell(review, SOURCE_USED, "key", shown.text, "");
            break;
        case KEY_FATE_NO_EFFECT:
            tell(review, SOURCE_IGNORED, "key", shown.text, "with this value the model is the same without it");
            break;
        case KEY_FATE_REFUSED:
            tell(review, SOURCE_REFUSED, "key", shown.text, without_path(review, &why));
            break;
        case KEY_FATE_UNKNOWN:
            tell(review, SOURCE_IGNORED, "key", shown.text,
                 "not known here: answers may differ from what the model was made for");
            break;
        }
    }
}

/* --- tensors ------------------------------------------------------------------------------------------------------ */

static void review_tensors(Review *review, const Hparams *hparams) {
    ErrText why = { 0 };
    bool has_strangers = false;

    for (size_t i = 0; i < gguf_n_tensors(review->file); i++) {
        const GgufTensor *tensor = gguf_tensor_at(review->file, i);

        if (hparams_has_tensor(hparams, review->file, tensor->name)) {
            tell(review, SOURCE_USED, "tensor", tensor->name, "");
            continue;
        }
        has_strangers = true;
        tell(review, SOURCE_REFUSED, "tensor", tensor->name, "not part of the architecture as it is supported here");
    }
    if (!has_strangers && hparams_check_tensors(hparams, review->file, &why))
        tell(review, SOURCE_REFUSED, "tensor", "", without_path(review, &why));
}

/* --- text --------------------------------------------------------------------------------------------------------- */

static void review_tokenizer(Review *review) {
    _cleanup_(tokenizer_freep) Tokenizer *tokenizer = NULL;
    ErrText why = { 0 };

    if (tokenizer_new(&tokenizer, review->file, &why))
        tell(review, SOURCE_REFUSED, "tokenizer", "", without_path(review, &why));
    else
        tell(review, SOURCE_USED, "tokenizer", tokenizer_model_name(tokenizer), "");
}

static void review_template(Review *review) {
    ChatTemplate chat;

    if (chat_template_init(&chat, review->file, NULL, 0) < 0)
        tell(review, SOURCE_IGNORED, "chat template", "", "out of memory");
    else if (!chat.has_template)
        tell(review, SOURCE_IGNORED, "chat template", "", "there is none: only raw prompts can be used");
    else if (!chat.jinja) /* the model loads all the same */
        tell(review, SOURCE_IGNORED, "chat template", "", chat.why.text);
    else
        tell(review, SOURCE_USED, "chat template", "", "");
    if (chat.has_tool_template && !chat.tool_jinja)
        tell(review, SOURCE_IGNORED, "chat template", "tool_use", chat.tool_why.text);
    else if (chat.tool_jinja)
        tell(review, SOURCE_USED, "chat template", "tool_use", "");
    chat_template_deinit(&chat);
}

bool source_review(const GgufFile *file, SourceReviewFn *fn, void *arg) {
    Review review = { .file = file, .fn = fn, .arg = arg };
    Hparams hparams;
    GgufString name;
    ErrText why = { 0 };
    Printable shown;
    int r;

    if (gguf_key(file, PACKAGE_KEY_FORMAT_VERSION))
        return false;
    if (!gguf_get_string(file, "general.architecture", &name, NULL))
        review.arch = arch_find(printable(&shown, name.data, name.len_bytes));
    r = hparams_read(&hparams, file, &why);
    if (!r)
        tell(&review, SOURCE_USED, "architecture", review.arch->name, "");
    review_keys(&review);
    if (r && !review.is_refused) /* otherwise a key was reported as the reason */
        tell(&review, SOURCE_REFUSED, "architecture", review.arch ? review.arch->name : "",
             without_path(&review, &why));
    if (!r)
        review_tensors(&review, &hparams);
    review_tokenizer(&review);
    review_template(&review);
    return !review.is_refused;
}
