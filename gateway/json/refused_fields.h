// SPDX-License-Identifier: Apache-2.0
/* Fields that clients know and the gateway refuses by name, each with its reason. */
#ifndef COORDGEN_GATEWAY_REFUSED_FIELDS_H
#define COORDGEN_GATEWAY_REFUSED_FIELDS_H

#include "gateway/json/field.h"

#define REFUSED_FIELD(name, why) { name, refuse, 0, 0, 0 },
#define REFUSED_REASON(name, why) why,

/* Defines the table refused[] of a list LIST(X) of X(name, why), once in a file. */
#define DEFINE_REFUSED_FIELDS(LIST)                                                                                    \
    static FieldSet refuse;                                                                                            \
    static const Field refused[] = { LIST(REFUSED_FIELD) };                                                            \
    static int refuse(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {      \
        static const char *const reasons[] = { LIST(REFUSED_REASON) };                                                 \
                                                                                                                       \
        return api_error_field(error, path, "%s is not supported: %s", path, reasons[field - refused]);                \
    }

#endif
