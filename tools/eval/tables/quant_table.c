// SPDX-License-Identifier: Apache-2.0
#include "tools/eval/tables/quant_table.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/files/file_io.h"
#include "importer/calibration_text.h"
#include "importer/import_settings.h"
#include "model/hparams/hparams.h"
#include "base/strings/json_text.h"
#include "model/package/package.h"
#include "tools/eval/quality/perplexity.h"
#include "tools/eval/quality/reference_rows.h"

#define ROWS_DEFAULT "int8,int8:6,int8:5,int8:4,edgeflow:5,compensated:6,compensated:5,compensated:4"
#define FLOAT_ROW "float"
#define FILE_MAX_BYTES ((size_t)1 << 30)

/* --- what is asked for -------------------------------------------------------------------------------------------- */

static const char *name_of(const char *path) {
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static int add_row(QuantTable *table, const char *spec, ErrText *err) {
    QuantTableRow *row = &table->rows[table->n_rows];
    int r;

    if (table->n_rows == QUANT_TABLE_ROWS_MAX)
        return err_set(err, -EINVAL, "--rows: more than %d rows", QUANT_TABLE_ROWS_MAX - 1);
    *row = (QuantTableRow){ .is_float = !strcmp(spec, FLOAT_ROW) };
    if (row->is_float) {
        memcpy(row->spec, FLOAT_ROW, sizeof(FLOAT_ROW));
    } else {
        r = recipe_spec_parse(&row->recipe, spec, err);
        if (r)
            return r;
        recipe_spec_format(row->spec, &row->recipe);
    }
    for (size_t i = 0; i < table->n_rows; i++)
        if (!strcmp(table->rows[i].spec, row->spec))
            return 0; /* it is there */
    table->n_rows++;
    return 0;
}

static int add_rows(QuantTable *table, const char *specs, ErrText *err) {
    _cleanup_(freep) char *copy = strdup(specs);
    char *rest = copy;
    int r;

    if (!copy)
        return err_no_memory(err);
    r = add_row(table, FLOAT_ROW, err);
    while (!r && rest)
        r = add_row(table, strsep(&rest, ","), err);
    return r;
}

static int file_sha256(const char *path, char sha256[SHA256_HEX_BYTES], ErrText *err) {
    _cleanup_(mapped_file_deinit) MappedFile file = { 0 };
    int r = mapped_file_open(&file, path, err);

    if (!r)
        sha256_hex(file.data, file.len_bytes, sha256);
    return r;
}

/* Adds a column. Its settings name all that a result depends on: the file's bytes, no threads, chunks or instruction
 * sets. */
static int add_column(QuantTable *table, const char *path, QuantTableKind kind, ErrText *err) {
    const EvalOptions *options = table->options;
    QuantTableColumn *column = &table->columns[table->n_columns];
    char sha256[SHA256_HEX_BYTES];
    int r = file_sha256(path, sha256, err);

    if (r)
        return r;
    *column = (QuantTableColumn){ .path = path, .name = name_of(path), .kind = kind };
    if (kind == QUANT_TABLE_MCQ)
        column->settings = json_pack("{s:s, s:s, s:I, s:s}", "kind", "mcq", "sha256", sha256, "limit",
                                     (json_int_t)options->questions.limit, "normalise",
                                     mcq_normalise_name(options->questions.normalise));
    else
        column->settings = json_pack(
            "{s:s, s:s, s:I, s:I}", "kind", kind == QUANT_TABLE_DIVERGENCE ? "divergence" : "perplexity", "sha256",
            sha256, "window", (json_int_t)options->text.window, "windows", (json_int_t)options->text.windows);
    table->n_columns++;
    return column->settings ? 0 : err_no_memory(err);
}

static McqOptions mcq_options(const QuantTable *table, const QuantTableColumn *column) {
    return (McqOptions){
        .file = column->path,
        .limit = table->options->questions.limit,
        .normalise = table->options->questions.normalise,
    };
}

/* Checks all questions before the work, for a column's turn comes after hours of imports and measurements. */
static int check_questions(const QuantTable *table, ErrText *err) {
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    _cleanup_(tokenizer_freep) Tokenizer *tokenizer = NULL;
    Hparams hparams;
    int r;

    if (!table->options->table.n_mcq)
        return 0;
    r = gguf_open(&file, table->options->model.path, err);
    if (!r)
        r = hparams_read(&hparams, file, err);
    if (!r)
        r = tokenizer_new(&tokenizer, file, err);
    for (size_t i = 0; !r && i < table->n_columns; i++) {
        McqOptions options = mcq_options(table, &table->columns[i]);

        if (table->columns[i].kind == QUANT_TABLE_MCQ)
            r = mcq_check(tokenizer, hparams.n_context, &options, err);
    }
    return r;
}

static int open_store(QuantTable *table, ErrText *err) {
    const EvalOptions *options = table->options;
    _cleanup_(str_buf_deinit) StrBuf path = STR_BUF_NULL;
    const char *name = name_of(options->model.path);
    size_t n = strlen(name);
    int r;

    r = file_make_dirs(options->table.work_dir, err);
    if (r)
        return r;
    if (n > 5 && !strcmp(name + n - 5, ".gguf"))
        n -= 5;
    if (options->table.save)
        str_buf_add(&path, options->table.save);
    else
        str_buf_addf(&path, "%s/%.*s.quant-table.json", options->table.work_dir, (int)n, name);
    if (str_buf_failed(&path))
        return err_no_memory(err);
    return table_store_open(&table->store, path.data, options->model.path, err);
}

void quant_table_close(QuantTable *table) {
    table_store_deinit(&table->store);
    for (size_t i = 0; i < table->n_columns; i++)
        json_decref(table->columns[i].settings);
    table->n_columns = 0;
}

/* Finds the row's stored results, which depend on the recipe, the calibration text and the importer's revision. */
static int find_stored(QuantTable *table, QuantTableRow *row, const CalibrationText *text, ErrText *err) {
    const bool calibrated = !row->is_float && quant_recipe_needs_calibration(&row->recipe);

    row->stored = table_store_row(&table->store, row->spec, calibrated ? text->sha256 : NULL,
                                  row->is_float ? 0 : IMPORT_REVISION);
    return row->stored ? 0 : err_no_memory(err);
}

int quant_table_open(QuantTable *table, const EvalOptions *options, ErrText *err) {
    _cleanup_(calibration_deinit) CalibrationText text = CALIBRATION_TEXT_NULL;
    int r;

    *table = (QuantTable){ .options = options };
    r = add_rows(table, options->table.rows ? options->table.rows : ROWS_DEFAULT, err);
    if (!r && options->file)
        r = add_column(table, options->file, QUANT_TABLE_PERPLEXITY, err);
    for (size_t i = 0; !r && i < options->table.n_mcq; i++)
        r = add_column(table, options->table.mcq[i], QUANT_TABLE_MCQ, err);
    for (size_t i = 0; !r && i < options->table.n_divergence; i++)
        r = add_column(table, options->table.divergence[i], QUANT_TABLE_DIVERGENCE, err);
    if (!r)
        r = check_questions(table, err);
    if (!r)
        r = calibration_load(&text, options->model.calibration, err);
    if (!r)
        r = open_store(table, err);
    for (size_t i = 0; !r && i < table->n_rows; i++)
        r = find_stored(table, &table->rows[i], &text, err);
    if (!r)
        r = table_store_save(&table->store, err); /* a file that cannot be written shows before the work */
    if (r)
        quant_table_close(table);
    return r;
}

/* --- a row's package ---------------------------------------------------------------------------------------------- */

typedef struct PackageBytes {
    uint64_t layers, outside; /* bytes of linears: weights, scales and widths */
} PackageBytes;

static int count_bytes(const char *path, PackageBytes *bytes, ErrText *err) {
    _cleanup_(package_freep) Package *package = NULL;
    int r = package_open(&package, path, err);

    if (r)
        return r;
    for (size_t i = 0; i < package_n_linears(package); i++) {
        const PackageLinear *linear = package_linear_at(package, i);
        uint64_t n = linear->weight_bytes + linear->n * (sizeof(*linear->scales) + sizeof(*linear->bits));

        if (!strncmp(linear->name, "blk.", 4))
            bytes->layers += n;
        else
            bytes->outside += n;
    }
    return 0;
}

/* Returns the import's time. An import that found its package has none; an earlier run may have stored it. */
static json_t *import_seconds(const json_t *stored, const ImportReport *report, const char *sha256) {
    const json_t *before = json_object_get(stored, "package");
    const char *before_sha256 = json_string_value(json_object_get(before, "sha256"));

    if (!report->already_imported)
        return json_real(report->seconds);
    if (before_sha256 && !strcmp(before_sha256, sha256))
        return json_deep_copy(json_object_get(before, "import_seconds"));
    return json_null();
}

static int import_row(QuantTable *table, QuantTableRow *row, char path[PATH_MAX], ErrText *err) {
    char sha256[SHA256_HEX_BYTES];
    PackageBytes bytes = { 0 };
    ImportReport report;
    json_t *package;
    int r;

    r = eval_import(&table->options->model, &row->recipe, table->options->table.work_dir, &report, err);
    if (!r)
        r = count_bytes(report.path, &bytes, err);
    if (!r)
        r = file_sha256(report.path, sha256, err);
    if (r)
        return r;
    package =
        json_pack("{s:o, s:s, s:I, s:I, s:I, s:f, s:f, s:i, s:o, s:I}", "file", json_text(name_of(report.path)),
                  "sha256", sha256, "bytes", (json_int_t)report.package_bytes, "layers_bytes", (json_int_t)bytes.layers,
                  "embedding_bytes", (json_int_t)bytes.outside, "bits", report.bits, "bits_asked", report.bits_asked,
                  "embedding_bits", (int)report.embedding_bits, "import_seconds",
                  import_seconds(row->stored, &report, sha256), "resumed_layers", (json_int_t)report.resumed_layers);
    if (!package)
        return err_no_memory(err);
    table_row_set_package(row->stored, package);
    memcpy(path, report.path, PATH_MAX);
    return table_store_save(&table->store, err);
}

/* --- measurements ------------------------------------------------------------------------------------------------- */

static int measure_perplexity(const QuantTable *table, const QuantTableRow *row, const QuantTableColumn *column,
                              Engine *engine, json_t **measurep, ErrText *err) {
    PerplexityOptions options = {
        .file = column->path,
        .window = table->options->text.window,
        .windows = table->options->text.windows,
    };
    _cleanup_(perplexity_deinit) Perplexity perplexity = { 0 };
    json_t *means;
    int r = perplexity_measure(&perplexity, engine, &options, err);

    if (r)
        return r;
    means = json_array();
    for (size_t i = 0; i < perplexity.n_windows; i++)
        json_array_append_new(means, eval_json_real(perplexity.means[i]));
    *measurep = json_pack("{s:o, s:o}", "perplexity", eval_json_real(perplexity.value), "window_mean_nll", means);
    return 0;
}

static int measure_mcq(const QuantTable *table, const QuantTableRow *row, const QuantTableColumn *column,
                       Engine *engine, json_t **measurep, ErrText *err) {
    McqOptions options = mcq_options(table, column);
    _cleanup_(mcq_deinit) Mcq mcq = { 0 };
    int r = mcq_measure(&mcq, engine, &options, err);

    if (r)
        return r;
    *measurep = json_pack("{s:i, s:i, s:f, s:o, s:i}", "n_rows", (int)mcq.n_rows, "n_right", (int)mcq.n_right,
                          "accuracy", mcq.accuracy, "standard_error", eval_json_real(mcq.standard_error),
                          "merged_borders", (int)mcq.n_merged);
    return 0;
}

/* Computes the reference's rows with its own engine, and keeps them under the path. */
static int make_reference(const QuantTable *table, ReferenceRows *rows, const TextWindows *windows, const char *path,
                          const char *key, ErrText *err) {
    _cleanup_(eval_model_close) EvalModel model = { 0 };
    EvalModelOptions options = table->options->model;
    int r;

    options.engine.load.device = ENGINE_DEVICE_REFERENCE;
    r = eval_model_open(&model, &options, err);
    if (!r)
        r = reference_rows_compute(rows, model.engine, windows, err);
    return r ? r : reference_rows_save(rows, path, key, err);
}

/* Takes the reference's rows from the work folder, where they are computed once. */
static int open_reference(const QuantTable *table, ReferenceRows *rows, const TextWindows *windows, ErrText *err) {
    _cleanup_(str_buf_deinit) StrBuf path = STR_BUF_NULL;
    char key[SHA256_HEX_BYTES];
    int r = reference_rows_key(
        key, json_string_value(json_object_get(json_object_get(table->store.root, "source"), "sha256")), windows);

    str_buf_addf(&path, "%s/%.16s.reference", table->options->table.work_dir, key);
    if (r || str_buf_failed(&path))
        return err_no_memory(err);
    r = reference_rows_load(rows, path.data, key, windows->n * windows->n_scored, err);
    return r == -ENOENT ? make_reference(table, rows, windows, path.data, key, err) : r;
}

static int measure_divergence(const QuantTable *table, const QuantTableRow *row, const QuantTableColumn *column,
                              Engine *engine, json_t **measurep, ErrText *err) {
    const EvalTextOptions *text = &table->options->text;
    _cleanup_(text_windows_deinit) TextWindows windows = { 0 };
    _cleanup_(reference_rows_deinit) ReferenceRows reference = { 0 };
    ReferenceDivergence result = { .same_top = 1 };
    int r = text_windows_init(&windows, engine, column->path, text->window, text->windows, err);

    if (!r)
        r = open_reference(table, &reference, &windows, err);
    if (!r && !row->is_float)
        r = reference_rows_measure(&result, &reference, engine, &windows, err);
    if (r)
        return r;
    *measurep = json_pack("{s:I, s:o, s:o, s:f, s:o, s:o, s:o, s:o}", "n_rows", (json_int_t)reference.n, "nats",
                          eval_json_real(result.nats), "nats_standard_error", eval_json_real(result.nats_error),
                          "same_top", result.same_top, "same_top_standard_error", eval_json_real(result.same_top_error),
                          "worst_hundredth_nats", eval_json_real(result.worst), "loss_change",
                          eval_json_real(result.loss_change), "loss_change_standard_error",
                          eval_json_real(result.loss_change_error));
    return 0;
}

typedef int MeasureFn(const QuantTable *table, const QuantTableRow *row, const QuantTableColumn *column, Engine *engine,
                      json_t **measurep, ErrText *err);

static MeasureFn *const measures[] = {
    [QUANT_TABLE_PERPLEXITY] = measure_perplexity,
    [QUANT_TABLE_MCQ] = measure_mcq,
    [QUANT_TABLE_DIVERGENCE] = measure_divergence,
};

static int quant_table_measure(QuantTable *table, QuantTableRow *row, const QuantTableColumn *column,
                               const EvalModel *model, ErrText *err) {
    uint64_t begin_ns = clock_now_ns();
    json_t *made = NULL;
    int r;

    fprintf(stderr, "coordgen-eval: %s: %s\n", row->spec, column->name);
    r = measures[column->kind](table, row, column, model->engine, &made, err);
    if (r)
        return r;
    if (!made || json_object_set_new(made, "file", json_text(column->name)) ||
        json_object_set_new(made, "kernel", json_string(engine_info(model->engine)->kernel)) ||
        json_object_set_new(made, "seconds", json_real((double)(clock_now_ns() - begin_ns) / 1e9)) ||
        table_row_add(row->stored, json_incref(column->settings), made))
        return err_no_memory(err);
    return table_store_save(&table->store, err);
}

static bool is_complete(const QuantTable *table, const QuantTableRow *row) {
    for (size_t i = 0; i < table->n_columns; i++)
        if (!quant_table_cell(table, row, i))
            return false;
    return row->is_float || json_object_get(row->stored, "package");
}

/**
 * quant_table_run_row() - complete a row
 *
 * A complete row is left alone, for its package may be gone. Otherwise the package is made, or found in the work
 * folder. Stored results of another package are measured anew.
 *
 * Return: 0, or an error of the import, the engine, the texts or the store, with a text.
 */
int quant_table_run_row(QuantTable *table, QuantTableRow *row, ErrText *err) {
    _cleanup_(eval_model_close) EvalModel model = { 0 };
    EvalModelOptions options = table->options->model;
    char path[PATH_MAX];
    int r = 0;

    if (is_complete(table, row))
        return 0;
    options.engine.load.device = row->is_float ? ENGINE_DEVICE_REFERENCE : ENGINE_DEVICE_CPU;
    if (!row->is_float) {
        fprintf(stderr, "coordgen-eval: %s: importing\n", row->spec);
        r = import_row(table, row, path, err);
        options.path = path;
    }
    if (!r && !is_complete(table, row))
        r = eval_model_open(&model, &options, err);
    for (size_t i = 0; !r && i < table->n_columns; i++)
        if (!quant_table_cell(table, row, i))
            r = quant_table_measure(table, row, &table->columns[i], &model, err);
    if (!r && !row->is_float && table->options->table.drop_packages && unlink(path) < 0)
        r = err_set(err, -errno, "%s: cannot remove: %s", path, strerror(errno));
    if (r)
        err_prefix(err, "%s", row->spec);
    return r;
}

const json_t *quant_table_cell(const QuantTable *table, const QuantTableRow *row, size_t column) {
    return table_row_measure(row->stored, table->columns[column].settings);
}

double quant_table_perplexity(const QuantTable *table, const QuantTableRow *row) {
    const json_t *cell =
        table->n_columns && table->columns[0].kind == QUANT_TABLE_PERPLEXITY ? quant_table_cell(table, row, 0) : NULL;

    if (!cell)
        return NAN;
    return json_is_number(json_object_get(cell, "perplexity")) ? json_number_value(json_object_get(cell, "perplexity"))
                                                               : INFINITY;
}
