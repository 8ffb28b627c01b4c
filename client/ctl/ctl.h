// SPDX-License-Identifier: Apache-2.0
/* The parts that coordgenctl's verbs share. A file of commands/ holds one group of verbs; options are tables. */
#ifndef COORDGEN_CLIENT_CTL_CTL_H
#define COORDGEN_CLIENT_CTL_CTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/strings/options.h"
#include "client/coordgen-client.h"

/* Exit statuses, from sysexits(3) if it has one. */
enum {
    CTL_EXIT_OK = 0,
    CTL_EXIT_FAILED = 1,
    CTL_EXIT_USAGE = 2,
    CTL_EXIT_INACTIVE = 3,     /* ping: no service */
    CTL_EXIT_UNREACHABLE = 69, /* EX_UNAVAILABLE */
    CTL_EXIT_BUSY = 75,        /* EX_TEMPFAIL: try again */
    CTL_EXIT_DENIED = 77,      /* EX_NOPERM */
    CTL_EXIT_INTERRUPTED = 130,
};

typedef enum CtlJson {
    CTL_JSON_OFF,
    CTL_JSON_SHORT,
    CTL_JSON_PRETTY,
} CtlJson;

typedef struct Ctl Ctl;

typedef struct CtlVerb {
    const char *group; /* "model", or NULL */
    const char *name;
    const char *alias; /* a word for the whole verb: "ls"; NULL: none */
    const char *arguments;
    const char *summary;
    const char *more; /* further text of --help: details, examples */
    const Option *options;
    size_t n_options;
    int n_args_min, n_args_max; /* max < 0: any number */
    int (*run)(Ctl *ctl);       /* returns an exit status */
} CtlVerb;

typedef struct CtlValue {
    const Option *option;
    const char *text;
} CtlValue;

struct Ctl {
    const CtlVerb *verb;
    CtlValue *values; /* given options, in order */
    size_t n_values;
    const char **args;
    int n_args;
    CtlJson json;
    bool quiet;
    bool out_tty, err_tty;
    bool loading_told; /* the user knows that a model is being loaded */
    bool progress_drawn;
    CoordgenClient *client;
    int signal_fd; /* receives SIGINT after ctl_interrupts_open(); -1 before */
};

extern const CtlVerb ctl_verb_generate, ctl_verb_chat, ctl_verb_tokenize, ctl_verb_status, ctl_verb_top,
    ctl_verb_explain, ctl_verb_ping, ctl_verb_wait_ready, ctl_verb_model_list, ctl_verb_model_show,
    ctl_verb_model_import, ctl_verb_model_load, ctl_verb_model_unload, ctl_verb_model_default, ctl_verb_model_pair,
    ctl_verb_model_verify, ctl_verb_draftdb_stats, ctl_verb_draftdb_forget, ctl_verb_draftdb_export,
    ctl_verb_draftdb_import, ctl_verb_draftdb_freeze, ctl_verb_draftdb_thaw, ctl_verb_cancel, ctl_verb_model_rm,
    ctl_verb_disk, ctl_verb_prune, ctl_verb_model_pull, ctl_verb_embed;

/* ctl_options.c */
extern const Option ctl_common_options[];
extern const size_t ctl_n_common_options;
int ctl_parse(Ctl *ctl, int argc, char **argv, const CtlVerb *const *verbs, size_t n_verbs, bool *helpp,
              bool *versionp);
bool ctl_has(const Ctl *ctl, const char *option);
const char *ctl_text(const Ctl *ctl, const char *option, const char *fallback); /* the last value given */
/* Take the value of an option; *valuep stays as it is if the option is not given. Return false, after a message, for a
 * value that is no number or out of range. */
bool ctl_number(const Ctl *ctl, const char *option, uint64_t max, uint64_t *valuep);
bool ctl_real(const Ctl *ctl, const char *option, double *valuep);
bool ctl_float(const Ctl *ctl, const char *option, float *valuep);
bool ctl_byte_count(const Ctl *ctl, const char *option, uint64_t *bytesp);
int ctl_usage_error(const Ctl *ctl, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ctl_help.c */
void ctl_help_verb(FILE *out, const CtlVerb *verb);
void ctl_help_all(FILE *out, const CtlVerb *const *verbs, size_t n_verbs);

/* ctl_text.c */
/* Prints text from outside. On a terminal it leaves out control characters (C0 except newline and tab, DEL, C1), which
 * could move the cursor or rename the window. */
void ctl_put(FILE *out, const char *text, size_t len_bytes, bool tty);
void ctl_put_text(FILE *out, const char *text, bool tty);
void ctl_put_escaped(FILE *out, const char *bytes, size_t len_bytes);    /* on one line; unprintable as \n, \xHH */
char *ctl_bytes_text(char *room, size_t room_bytes, uint64_t len_bytes); /* "1.2 GiB" */
char *ctl_count_text(char *room, size_t room_bytes, uint64_t count);     /* "134.5 M" */
char *ctl_duration_text(char *room, size_t room_bytes, uint64_t us);
unsigned ctl_columns(int fd); /* COLUMNS, else the width of the terminal, else 80 */
/* Prints lines, each cut to `columns`, so that a terminal does not wrap them. */
void ctl_put_lines(FILE *out, const char *text, unsigned columns);
/* Show progress in one line of a terminal on standard error; show nothing on other outputs. eta_seconds < 0: unknown.
 * */
void ctl_progress(Ctl *ctl, const char *what, double share, double eta_seconds);
void ctl_progress_line(Ctl *ctl, const char *format, ...) __attribute__((format(printf, 2, 3)));
void ctl_progress_queued(Ctl *ctl, uint32_t position); /* 1: the next */
void ctl_progress_clear(Ctl *ctl);                     /* removes the line, if there is one */

/* ctl_exit.c */
int ctl_exit_status(int code, uint32_t retry_after_ms);

/* ctl_service.c */
/* Every function that returns an exit status has printed the reason. */
const char *ctl_socket(const Ctl *ctl); /* the socket that the options name; NULL: the library chooses */
int ctl_connect(Ctl *ctl);              /* calls ctl_interrupts_open() too; 0 or an exit status */
int ctl_failed(Ctl *ctl, int code, const char *message, const char *field, uint32_t retry_after_ms);
int ctl_failed_call(Ctl *ctl);     /* reports the failure of the last call on the client */
int ctl_interrupts_open(Ctl *ctl); /* 0 or an exit status */
bool ctl_interrupted(Ctl *ctl);    /* takes one pending Ctl-C */

/* A request that a verb waits for. Ctrl-C cancels the request, a second Ctrl-C ends the wait. */
typedef struct CtlWait {
    CoordgenEventFn *fn; /* progress and deltas; may be NULL */
    void *arg;
    CoordgenReply *reply; /* freed by ctl_wait_deinit() */
    bool ended;
    bool interrupted;
} CtlWait;

int ctl_wait_event(void *arg, const CoordgenEvent *event); /* passed to _start(), with the CtlWait as arg */
/* Waits for the end of the request. 0, or an exit status if there is no reply. */
int ctl_wait(Ctl *ctl, CtlWait *wait, int started);
int ctl_failed_reply(Ctl *ctl, const CtlWait *wait); /* reports a reply that is an error */
void ctl_wait_deinit(CtlWait *wait);

/* ctl_hint.c: print the next command for the user, unless --quiet */
void ctl_hint_connect(const Ctl *ctl, int code); /* code: the CoordgenError of the connection */
void ctl_hint_imported(const Ctl *ctl, const char *path, const char *model_dir); /* NULL: not into model-dir */
void ctl_hint_loaded(const Ctl *ctl, const char *name);

/* ctl_loading.c */
/* Shows how far the load of the model is that a request waits for. name: the model, if the event names none. If
 * standard error is no terminal, one line says that a model is being loaded. Returns false if the event is about
 * something else. */
bool ctl_loading(Ctl *ctl, const CoordgenEvent *event, const char *name);
/* Loads the model (NULL: the default) unless it is loaded, and shows progress on standard error; with says_what it
 * describes the model too. 0 or an exit status. */
int ctl_load_for_use(Ctl *ctl, const char *name, bool says_what);

/* ctl_prompt.c */
/* Returns arguments, --file and standard input as one text, which the caller frees; NULL after a message. */
char *ctl_prompt(Ctl *ctl);
/* Reads a text file; "-": standard input. The caller frees it. NULL: after a message. */
char *ctl_slurp(Ctl *ctl, const char *path);
/* Reads the file that an option names. The caller frees *textp, which is NULL if the option is not given. Returns
 * false, after a message, if the file cannot be read. */
bool ctl_option_file(Ctl *ctl, const char *name, char **textp);

/* ctl_answer.c */
/* An answer on its way to standard output. Thinking is dimmed on a terminal, and left out elsewhere. */
typedef struct CtlAnswer {
    CoordgenPart part; /* of the last piece; 0: none yet */
    char last;         /* the last printed byte */
} CtlAnswer;

int ctl_answer_put(CtlAnswer *answer, const Ctl *ctl, const CoordgenEvent *event); /* 1: the output has failed */
/* Ends the dimmed text, and with ends_line the line. */
void ctl_answer_end(CtlAnswer *answer, bool ends_line);
/* Sets what the options say about thinking and parts; false: after a message. */
bool ctl_thinking(const Ctl *ctl, CoordgenGenerateOptions *options);
/* ctl_tools.c: sets which tools may or must be called; false: after a message. */
bool ctl_tool_choice(const Ctl *ctl, CoordgenGenerateOptions *options);
/* ctl_constraint.c: what the answer may be. textp: out: text of a file, which the caller frees. 0 or an exit status. */
int ctl_constraint(Ctl *ctl, CoordgenGenerateOptions *options, char **textp);

/* ctl_completion.c */
/* Parses numbers separated by blanks, commas or brackets; the caller frees *idsp. false: after a message. */
bool ctl_ids(const Ctl *ctl, const char *text, uint32_t **idsp, size_t *np);
bool ctl_is_raw(const Ctl *ctl); /* the prompt is no message */
/* Sets what the options say about raw prompts, the beginning of an answer and the number of answers. The caller frees
 * *idsp. false: after a message. */
bool ctl_completion(const Ctl *ctl, CoordgenGenerateOptions *options, uint32_t **idsp);
/* Prints the answers, each behind a line with its number. false: the output has failed. */
bool ctl_print_choices(const Ctl *ctl, const CoordgenGenerateResult *result);

/* ctl_sampling.c */
bool ctl_priority(const Ctl *ctl, CoordgenPriority *priorityp); /* --priority; false: after a message */
bool ctl_sampling(const Ctl *ctl, CoordgenGenerateOptions *options, CoordgenPriority priority, const char **stops,
                  size_t n_stops_max);
void ctl_print_timings(const Ctl *ctl, const CoordgenGenerateResult *result);
void ctl_print_cut(const CoordgenGenerateResult *result, const char *begin, const char *end);

/* ctl_more_sampling.c */
#define CTL_DRY_BREAKERS_MAX 16

/* Further ways of sampling, with their lists; texts stay in argv. */
typedef struct CtlMoreSampling {
    CoordgenSamplingOptions options;
    const char *breakers[CTL_DRY_BREAKERS_MAX];
    CoordgenLogitBias *biases;
} CtlMoreSampling;

/* Sets more_sampling of the options, which points to `more`. Returns false after a message. */
bool ctl_more_sampling(const Ctl *ctl, CtlMoreSampling *more, CoordgenGenerateOptions *options);
void ctl_more_sampling_deinit(CtlMoreSampling *more);
void ctl_print_more_sampling(const CoordgenSamplingOptions *more); /* on standard error: those that are on */

#define CTL_MORE_SAMPLING_OPTIONS                                                                                      \
    { "presence-penalty", 0, "X", "make tokens of the answer less likely by X; 0: off (default)" },                    \
        { "frequency-penalty", 0, "X", "likewise, X as often as a token stands in the answer" },                       \
        { "typical-p", 0, "P", "sample from the tokens of average surprise that make up P; 1: off (default)" },        \
        { "xtc-probability", 0, "P", "how often to drop the likeliest tokens; 0: off (default)" },                     \
        { "xtc-threshold", 0, "P", "those from P on, but for the least likely of them (default: 0.1)" },               \
        { "dry-multiplier", 0, "X", "penalty on what prolongs a repetition; 0: off (default)" },                       \
        { "dry-base", 0, "X", "by this factor for each token of the repetition (default: 1.75)" },                     \
        { "dry-allowed-length", 0, "N", "longest repetition without a growing penalty (default: 2)" },                 \
        { "dry-window", 0, "N", "how many tokens back that looks; 0: all (default)" },                                 \
        { "dry-breaker", 0, "TEXT", "ends a repetition; up to 16 times (default: newline : \" *)" }, {                 \
        "logit-bias", 0, "TOKEN=BIAS", "add to the logit of a token; -inf: never give it; up to 1024 times"            \
    }

/* ctl_logprobs.c */
/* Sets logprobs of the options. Returns false after a message. */
bool ctl_logprobs(const Ctl *ctl, CoordgenGenerateOptions *options);
void ctl_print_logprobs(const CoordgenEvent *event); /* on standard output: a line for each token */

#define CTL_STOPS_MAX 8
#define CTL_SAMPLING_OPTIONS                                                                                           \
    { "model", 'm', "NAME", "the model (default: the service's default)" },                                            \
        { "system", 's', "TEXT", "instructions for the model, before the prompt" },                                    \
        { "max-tokens", 'n', "N", "end after N tokens; 0: as many as fit (default; of chat: 1024)" },                  \
        { "temperature", 't', "X", "0: always the likeliest token; up to 100 (default: the model's)" },                \
        { "top-k", 0, "N", "sample from the N likeliest; 0: off (default: the model's)" },                             \
        { "top-p", 0, "P", "sample from the likeliest that make up P; 1: off (likewise)" },                            \
        { "min-p", 0, "P", "drop tokens below P times the likeliest; 0: off (likewise)" },                             \
        { "repetition-penalty", 0, "X", "make tokens of the last text less likely; 1: off (likewise)" },               \
        { "repetition-window", 0, "N", "how many tokens back that looks; 0: all (likewise)" },                         \
        { "allow-repetition", 0, NULL, "go on when the answer repeats itself over and over" },                         \
        { "seed", 0, "N", "the same seed gives the same text (default: drawn, and told)" },                            \
        { "stop", 0, "TEXT", "end before this text; up to 8 times" },                                                  \
        { "no-reuse", 0, NULL, "compute all of the prompt, keep nothing of it for later" },                            \
        { "speculation", 0, "SOURCES",                                                                                 \
          "drafts for several tokens a step: auto, off or sources (default: the service's)" },                         \
        { "no-history", 0, NULL, "no drafts from earlier answers, and do not store this one" },                        \
        { "tools", 0, "FILE", "JSON of tools that the model may call" },                                               \
        { "tool-choice", 0, "CHOICE", "auto (default), none, required (a call comes in any case), or a tool's name" }, \
        { "single-call", 0, NULL, "at most one call" }, { "documents", 0, "FILE", "JSON of documents, likewise" },     \
        { "template-kwargs", 0, "JSON", "object of further variables for the chat template" },                         \
        { "think", 0, "N", "think for at most N tokens, then answer" },                                                \
        { "no-think", 0, NULL, "answer without thinking" },                                                            \
        { "no-split", 0, NULL, "thinking and calls as the model writes them, in the text" },                           \
        { "json-schema", 0, "FILE|TEXT", "the answer is JSON that fits this schema; {}: any JSON" },                   \
        { "any-order", 0, NULL, "with --json-schema: properties in any order" },                                       \
        { "compact", 0, NULL, "with --json-schema: no white space" },                                                  \
        { "grammar", 0, "FILE|TEXT", "the answer fits this grammar (GBNF)" },                                          \
        { "regex", 0, "PATTERN", "the answer matches this regular expression, as a whole" },                           \
        { "no-end-in-time", 0, NULL, "let the end of --max-tokens cut such an answer off" },                           \
        { "priority", 'p', "CLASS", "interactive (default of chat), normal (of generate) or background" }, {           \
        "timings", 0, NULL, "print timings on standard error, also when that is no terminal"                           \
    }

/* ctl_explain.c */
double ctl_accept_length(const CoordgenExplanation *explanation); /* tokens per decoding step; 0: there was no step */
void ctl_print_explanation(FILE *out, const CoordgenExplanation *explanation);

/* ctl_import.c: imports the file that the first argument names, with the verb's options. Returns an exit status. */
int ctl_import_file(Ctl *ctl);

/* ctl_gguf.c: shows a model file without the service. Returns an exit status. */
int ctl_show_file(Ctl *ctl, const char *path);

#endif
