// SPDX-License-Identifier: Apache-2.0
/* disk: shows the files of the service on disks, by model. */
#include <stdlib.h>
#include <string.h>

#include "base/min_max.h"
#include "client/ctl/ctl_files.h"

enum {
    DISK_TIMEOUT_MS = 10000
};

/* The bytes of a model's files; the name "" stands for files of no model. */
typedef struct ModelDisk {
    const char *name;
    uint64_t own_bytes; /* source, package */
    uint64_t imported_bytes, image_bytes, work_bytes, total_bytes;
} ModelDisk;

typedef struct Disk {
    ModelDisk *models;
    size_t n_models;
    uint64_t draft_db_bytes, set_aside_bytes, other_bytes;
} Disk;

static ModelDisk *model_of(Disk *disk, const char *name) {
    for (size_t i = 0; i < disk->n_models; i++)
        if (!strcmp(disk->models[i].name, name))
            return &disk->models[i];
    disk->models[disk->n_models] = (ModelDisk){ .name = name };
    return &disk->models[disk->n_models++];
}

/* Returns the sum that counts files of this kind. */
static uint64_t *sum_of(ModelDisk *model, CoordgenFileKind kind) {
    switch (kind) {
    case COORDGEN_FILE_IMPORTED:
        return &model->imported_bytes;
    case COORDGEN_FILE_IMAGE:
        return &model->image_bytes;
    case COORDGEN_FILE_IMPORT_WORK:
        return &model->work_bytes;
    default:
        return &model->own_bytes;
    }
}

static void count_file(Disk *disk, const CoordgenFile *file) {
    ModelDisk *model;

    if (file->kind == COORDGEN_FILE_DRAFT_DB) {
        disk->draft_db_bytes += file->bytes;
    } else if (file->kind == COORDGEN_FILE_SET_ASIDE) {
        disk->set_aside_bytes += file->bytes;
    } else if (file->kind == COORDGEN_FILE_OTHER) {
        disk->other_bytes += file->bytes;
    } else {
        model = model_of(disk, file->model);
        *sum_of(model, file->kind) += file->bytes;
        model->total_bytes += file->bytes;
    }
}

static int compare_models(const void *a, const void *b) {
    return strcmp(((const ModelDisk *)a)->name, ((const ModelDisk *)b)->name);
}

/* Sums the files by model. Returns false without memory. */
static bool disk_count(Disk *disk, const CoordgenReply *reply) {
    *disk = (Disk){ .models = calloc(coordgen_reply_n_files(reply) + 1, sizeof(*disk->models)) };
    if (!disk->models)
        return false;
    for (size_t i = 0; i < coordgen_reply_n_files(reply); i++)
        count_file(disk, coordgen_reply_file(reply, i));
    qsort(disk->models, disk->n_models, sizeof(*disk->models), compare_models);
    return true;
}

static json_t *json_model(const ModelDisk *model) {
    json_t *object = json_object();

    ctl_json_set(object, "model", *model->name ? ctl_json_text(model->name, strlen(model->name)) : json_null());
    ctl_json_set(object, "own_bytes", json_integer((json_int_t)model->own_bytes));
    ctl_json_set(object, "imported_bytes", json_integer((json_int_t)model->imported_bytes));
    ctl_json_set(object, "image_bytes", json_integer((json_int_t)model->image_bytes));
    ctl_json_set(object, "import_work_bytes", json_integer((json_int_t)model->work_bytes));
    ctl_json_set(object, "total_bytes", json_integer((json_int_t)model->total_bytes));
    return object;
}

static json_t *json_systems(const CoordgenReply *reply) {
    json_t *systems = json_array();

    for (size_t i = 0; i < coordgen_reply_n_file_systems(reply); i++) {
        const CoordgenFileSystem *system = coordgen_reply_file_system(reply, i);
        json_t *object = json_object();

        ctl_json_set(object, "path", ctl_json_text(system->path, strlen(system->path)));
        ctl_json_set(object, "free_bytes", json_integer((json_int_t)system->free_bytes));
        ctl_json_set(object, "size_bytes", json_integer((json_int_t)system->size_bytes));
        json_array_append_new(systems, object);
    }
    return systems;
}

static int disk_json(const Ctl *ctl, const Disk *disk, const CoordgenReply *reply) {
    json_t *object = json_object(), *models = json_array();

    for (size_t i = 0; i < disk->n_models; i++)
        json_array_append_new(models, json_model(&disk->models[i]));
    ctl_json_set(object, "models", models);
    ctl_json_set(object, "draft_database_bytes", json_integer((json_int_t)disk->draft_db_bytes));
    ctl_json_set(object, "set_aside_bytes", json_integer((json_int_t)disk->set_aside_bytes));
    ctl_json_set(object, "other_bytes", json_integer((json_int_t)disk->other_bytes));
    ctl_json_set(object, "total_bytes", json_integer((json_int_t)coordgen_reply_files_bytes(reply, NULL)));
    ctl_json_set(object, "files", ctl_json_files(reply));
    ctl_json_set(object, "file_systems", json_systems(reply));
    return ctl_json_print(ctl, object);
}

static void put_size(uint64_t bytes) {
    char size[32];

    printf("  %9s", bytes ? ctl_bytes_text(size, sizeof(size), bytes) : "-");
}

static void put_sum(const char *what, uint64_t bytes) {
    char size[32];

    if (bytes)
        printf("%-15s %s\n", what, ctl_bytes_text(size, sizeof(size), bytes));
}

static void put_models(const Ctl *ctl, const Disk *disk) {
    size_t columns = 5;

    for (size_t i = 0; i < disk->n_models; i++)
        columns = MAX(strlen(disk->models[i].name), columns);
    if (disk->n_models)
        printf("%-*s  %9s  %9s  %9s  %9s  %9s\n", (int)columns, "MODEL", "FILE", "IMPORTED", "IMAGE", "WORK", "TOTAL");
    for (size_t i = 0; i < disk->n_models; i++) {
        const ModelDisk *model = &disk->models[i];
        const char *name = *model->name ? model->name : "-";

        ctl_put_text(stdout, name, ctl->out_tty);
        printf("%*s", (int)(columns - strlen(name)), "");
        put_size(model->own_bytes);
        put_size(model->imported_bytes);
        put_size(model->image_bytes);
        put_size(model->work_bytes);
        put_size(model->total_bytes);
        putchar('\n');
    }
}

static void put_disk(const Ctl *ctl, const Disk *disk, const CoordgenReply *reply) {
    char free_text[32], size[32];

    put_models(ctl, disk);
    put_sum("draft database", disk->draft_db_bytes);
    put_sum("set aside", disk->set_aside_bytes);
    put_sum("other", disk->other_bytes);
    put_sum("total", coordgen_reply_files_bytes(reply, NULL));
    for (size_t i = 0; i < coordgen_reply_n_file_systems(reply); i++) {
        const CoordgenFileSystem *system = coordgen_reply_file_system(reply, i);

        ctl_put_text(stdout, system->path, ctl->out_tty);
        printf(": %s of %s free\n", ctl_bytes_text(free_text, sizeof(free_text), system->free_bytes),
               ctl_bytes_text(size, sizeof(size), system->size_bytes));
    }
}

static int disk_run(Ctl *ctl) {
    _cleanup_(ctl_wait_deinit) CtlWait wait = { 0 };
    _cleanup_(freep) ModelDisk *models = NULL;
    Disk disk;
    int r = ctl_connect(ctl);

    if (!r)
        r = ctl_wait(ctl, &wait, coordgen_disk_start(ctl->client, DISK_TIMEOUT_MS, ctl_wait_event, &wait, NULL));
    if (r)
        return r;
    if (coordgen_reply_error(wait.reply))
        return ctl_failed_reply(ctl, &wait);
    if (!disk_count(&disk, wait.reply))
        return ctl_failed(ctl, COORDGEN_E_NO_MEMORY, "out of memory", "", 0);
    models = disk.models;
    if (ctl->json)
        return disk_json(ctl, &disk, wait.reply);
    if (ctl_has(ctl, "files"))
        ctl_put_files(ctl, stdout, wait.reply);
    else
        put_disk(ctl, &disk, wait.reply);
    return CTL_EXIT_OK;
}

static const Option disk_options[] = {
    { "files", 0, NULL, "a line for each file instead of one for each model" },
};

const CtlVerb ctl_verb_disk = {
    .name = "disk",
    .arguments = "",
    .summary = "show what models and their like take of the disk",
    .more = "Of each model: its file or files, the package that the service has made of them (IMPORTED),\n"
            "the image of its weights, and work of imports; then the draft database, and what is free.\n"
            "Administrators only.\n"
            "\nExamples\n"
            "  coordgenctl disk\n"
            "  coordgenctl disk --json=short | jq '.models[] | [.model, .total_bytes]'\n",
    .options = disk_options,
    .n_options = ARRAY_LEN(disk_options),
    .run = disk_run,
};
