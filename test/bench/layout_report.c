// SPDX-License-Identifier: Apache-2.0
#include "test/bench/layout_report.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

/* The paper's number and its possible meanings. */
static const double edgeflow_printed = 0.48;
static const char edgeflow_note[] =
    "EdgeFlow (4.2) prints 0.48 SIMD instructions a weight \"on average\", on Arm CPUs, naming neither width nor "
    "register.\n"
    "Its steps counted one by one (loads, masks, shifts, merges, cast, store) are (B + 8 (3 c + 1)) / R for B bits in "
    "c\n"
    "components: 0.477 at 5 bits, its default, and 0.484 at 6 bits on Neon's R = 128, so 0.48 is taken as that: "
    "vector\n"
    "instructions only, from packed memory to int8 in memory. `steps` are the same steps on the registers of the row;\n"
    "`instr` is what the kernels take with loops and addresses, `vector` those of them on vector registers.";

static int n_components(int bits) {
    return bits == 8 ? 2 : bits / 4 + bits / 2 % 2 + bits % 2;
}

double layout_edgeflow_steps(int bits, unsigned int register_bits) {
    return (bits + 8.0 * (3 * n_components(bits) + 1)) / register_bits;
}

/* Returns the kernel's suffix behind the two underlines. */
static const char *build_of(const LayoutResult *result) {
    const char *suffix = strstr(result->kernels.product_name, "__");

    return suffix ? suffix + 2 : result->kernels.product_name;
}

static void print_value(const char *format, int width, double value) {
    if (isnan(value))
        printf(" %*s", width, "-");
    else
        printf(format, value);
}

void layout_report_table(const LayoutReport *report) {
    printf("%s\n%s, one thread by its CPU time, medians of %d rounds; memory is read at %.1f GB/s\n", report->machine,
           report->date, report->rounds, report->read_gb_s);
    if (report->not_counted)
        printf("instructions are not counted here: %s\n", report->not_counted);
    printf("\n%-13s %-11s %-10s %7s | expand to int8 %22s | product of one row\n", "layout", "", "", "bytes", "");
    printf("%-13s %-11s %-10s %7s | %7s %7s %7s %7s %5s | %7s %7s %7s %7s %7s %7s\n", "", "", "kernels", "/weight",
           "instr", "vector", "steps", "ns", "bits", "instr", "added", "ns", "GB/s", "of read", "speed");
    for (size_t i = 0; i < report->n_results; i++) {
        const LayoutResult *r = &report->results[i];

        printf("%-13s %-11s %-10s %7.4f |", r->spec->name, r->spec->variant, build_of(r), r->stored_bytes);
        print_value(" %7.4f", 7, r->expand_all);
        print_value(" %7.4f", 7, r->expand_vector);
        print_value(" %7.4f", 7, r->edgeflow_steps);
        print_value(" %7.4f", 7, r->expand_ns);
        print_value(" %5.0f", 5, r->kernels.expand_name ? (double)r->register_bits : NAN);
        printf(" |");
        print_value(" %7.4f", 7, r->product_all);
        print_value(" %7.4f", 7, r->product_added);
        print_value(" %7.4f", 7, r->product_ns);
        print_value(" %7.2f", 7, r->product_gb_s);
        print_value(" %6.0f%%", 7, 100 * r->of_read);
        print_value(" %7.2f", 7, r->of_tiles);
        printf("\n");
    }
    printf(
        "\ninstr: instructions a weight; added: more than the int8 tiles take on the same instruction set, which is "
        "what\n"
        "expanding in registers costs; of read: the product's bytes a second beside reading alone; speed: weights a\n"
        "second beside the int8 tiles on the best instruction set. Matrices of %d x %d, read from %zu MiB.\n",
        LAYOUT_N, LAYOUT_K, report->arena_bytes >> 20);
    printf("%s\n", edgeflow_note);
}

static void csv_value(double value) {
    if (isnan(value))
        printf(",");
    else
        printf(",%.6g", value);
}

void layout_report_csv(const LayoutReport *report) {
    printf("# %s, %s, reads %.2f GB/s, %d rounds, EdgeFlow prints %.2f at 128 bits\n", report->machine, report->date,
           report->read_gb_s, report->rounds, edgeflow_printed);
    printf("layout,variant,build,product_kernel,expand_kernel,stored_bytes_per_weight,register_bits,"
           "expand_instructions_per_weight,expand_vector_instructions_per_weight,edgeflow_steps_per_weight,"
           "expand_ns_per_weight,product_instructions_per_weight,product_added_instructions_per_weight,"
           "product_ns_per_weight,product_gb_per_s,product_of_read,product_of_int8_tiles\n");
    for (size_t i = 0; i < report->n_results; i++) {
        const LayoutResult *r = &report->results[i];

        printf("%s,%s,%s,%s,%s,%.6g,%u", r->spec->name, r->spec->variant, build_of(r), r->kernels.product_name,
               r->kernels.expand_name ? r->kernels.expand_name : "", r->stored_bytes, r->register_bits);
        csv_value(r->expand_all);
        csv_value(r->expand_vector);
        csv_value(r->edgeflow_steps);
        csv_value(r->expand_ns);
        csv_value(r->product_all);
        csv_value(r->product_added);
        csv_value(r->product_ns);
        csv_value(r->product_gb_s);
        csv_value(r->of_read);
        csv_value(r->of_tiles);
        printf("\n");
    }
}

static json_t *json_number_or_null(double value) {
    return isnan(value) ? json_null() : json_real(value);
}

static json_t *json_string_or_null(const char *text) {
    return text ? json_string(text) : json_null();
}

static json_t *result_json(const LayoutResult *r) {
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:o, s:f, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:f, s:f, s:f, s:f}", "layout",
        r->spec->name, "variant", r->spec->variant, "build", build_of(r), "product_kernel", r->kernels.product_name,
        "expand_kernel", json_string_or_null(r->kernels.expand_name), "stored_bytes_per_weight", r->stored_bytes,
        "register_bits", (int)r->register_bits, "expand_instructions_per_weight", json_number_or_null(r->expand_all),
        "expand_vector_instructions_per_weight", json_number_or_null(r->expand_vector), "edgeflow_steps_per_weight",
        json_number_or_null(r->edgeflow_steps), "expand_ns_per_weight", json_number_or_null(r->expand_ns),
        "product_instructions_per_weight", json_number_or_null(r->product_all), "product_added_instructions_per_weight",
        json_number_or_null(r->product_added), "product_ns_per_weight", r->product_ns, "product_gb_per_s",
        r->product_gb_s, "product_of_read", r->of_read, "product_of_int8_tiles", r->of_tiles);
}

int layout_report_json(const LayoutReport *report) {
    json_t *rows = json_array(), *root;
    int r;

    for (size_t i = 0; rows && i < report->n_results; i++)
        if (json_array_append_new(rows, result_json(&report->results[i]))) {
            json_decref(rows);
            return -ENOMEM;
        }
    root = json_pack("{s:s, s:s, s:s, s:s, s:f, s:i, s:i, s:i, s:I, s:o, s:{s:f, s:i, s:s}, s:o}", "bench", "layouts",
                     "machine", report->machine, "date", report->date, "compiler", __VERSION__, "read_gb_per_s",
                     report->read_gb_s, "rounds", report->rounds, "n", LAYOUT_N, "k", LAYOUT_K, "arena_bytes",
                     (json_int_t)report->arena_bytes, "not_counted", json_string_or_null(report->not_counted),
                     "edgeflow", "instructions_per_weight", edgeflow_printed, "register_bits", 128, "note",
                     edgeflow_note, "rows", rows);
    if (!root)
        return -ENOMEM;
    r = json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) ? -EIO : 0;
    printf("\n");
    json_decref(root);
    return r;
}
