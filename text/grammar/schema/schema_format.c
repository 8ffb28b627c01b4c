// SPDX-License-Identifier: Apache-2.0
/* Formats of strings, as regular expressions. */
#include <string.h>

#include "base/cleanup.h"
#include "text/grammar/schema/schema_text.h"

enum {
    HOSTNAME_MAX = 253,
};

/* RFC 3339: lengths of months, leap years, the leap second at the end of a day in UTC. */
#define DATE                                                                                                           \
    "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|"              \
    "02-(?:0[1-9]|1[0-9]|2[0-8]))|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|"                                       \
    "(?:[02468][048]|[13579][26])00)-02-29)"
#define TIME                                                                                                           \
    "(?:(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]+)?(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])|"         \
    "23:59:60(?:\\.[0-9]+)?[Zz])"
/* RFC 3339, appendix A. */
#define DURATION_TIME "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
#define DURATION                                                                                                       \
    "P(?:[0-9]+W|(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)(?:" DURATION_TIME ")?|" DURATION_TIME \
    ")"
#define BYTE_NUMBER "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IPV4 "(?:" BYTE_NUMBER "\\.){3}" BYTE_NUMBER
/* RFC 4291, section 2.2. */
#define H16 "[0-9A-Fa-f]{1,4}"
#define LS32 "(?:" H16 ":" H16 "|" IPV4 ")"
#define IPV6                                                                                                           \
    "(?:(?:" H16 ":){6}" LS32 "|::(?:" H16 ":){5}" LS32 "|(?:" H16 ")?::(?:" H16 ":){4}" LS32 "|(?:(?:" H16            \
    ":){0,1}" H16 ")?::(?:" H16 ":){3}" LS32 "|(?:(?:" H16 ":){0,2}" H16 ")?::(?:" H16 ":){2}" LS32 "|(?:(?:" H16      \
    ":){0,3}" H16 ")?::" H16 ":" LS32 "|(?:(?:" H16 ":){0,4}" H16 ")?::" LS32 "|(?:(?:" H16 ":){0,5}" H16 ")?::" H16   \
    "|(?:(?:" H16 ":){0,6}" H16 ")?::)"
/* RFC 1123. A label with "--" as its third and fourth characters is encoded (xn--) and cannot be checked here. */
#define ALNUM "[A-Za-z0-9]"
#define LDH "[A-Za-z0-9-]"
#define LABEL ALNUM "(?:" LDH "{0,2}" ALNUM "|" LDH "(?:" ALNUM LDH "|-" ALNUM ")" LDH "{0,58}" ALNUM ")?"
#define HOSTNAME LABEL "(?:\\." LABEL ")*"
#define ATOM "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
#define EMAIL ATOM "(?:\\." ATOM ")*@(?:" HOSTNAME "|\\[" IPV4 "\\])"
#define UUID "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"
/* RFC 3986, appendix A. */
#define PERCENT "%[0-9A-Fa-f]{2}"
#define PCHAR "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|" PERCENT ")"
#define AUTHORITY                                                                                                      \
    "(?:(?:[A-Za-z0-9._~!$&'()*+,;=:-]|" PERCENT ")*@)?(?:\\[(?:" IPV6                                                 \
    "|v[0-9A-Fa-f]+\\.[A-Za-z0-9._~!$&'()*+,;=:-]+)\\]|(?:[A-Za-z0-9._~!$&'()*+,;=-]|" PERCENT ")*)(?::[0-9]*)?"
#define TAIL "(?:\\?(?:" PCHAR "|[/?])*)?(?:#(?:" PCHAR "|[/?])*)?"
#define ABEMPTY "(?:/" PCHAR "*)*"
#define ABSOLUTE "/(?:" PCHAR "+" ABEMPTY ")?"
#define URI "[A-Za-z][A-Za-z0-9+.-]*:(?://" AUTHORITY ABEMPTY "|" ABSOLUTE "|" PCHAR "+" ABEMPTY "|)" TAIL
#define NO_COLON "(?:[A-Za-z0-9._~!$&'()*+,;=@-]|" PERCENT ")+"
#define RELATIVE "(?://" AUTHORITY ABEMPTY "|" ABSOLUTE "|" NO_COLON ABEMPTY "|)" TAIL
/* RFC 6901 */
#define JSON_POINTER "(?:/(?:[^/~]|~[01])*)*"

static const struct {
    const char *name;
    const char *pattern; /* NULL: no restriction on strings */
} formats[] = {
    { "date", DATE },
    { "time", TIME },
    { "date-time", DATE "[Tt]" TIME },
    { "duration", DURATION },
    { "uuid", UUID },
    { "email", EMAIL },
    { "hostname", HOSTNAME },
    { "ipv4", IPV4 },
    { "ipv6", IPV6 },
    { "uri", URI },
    { "uri-reference", "(?:" URI "|" RELATIVE ")" },
    { "json-pointer", JSON_POINTER },
    { "relative-json-pointer", "(?:0|[1-9][0-9]*)(?:#|" JSON_POINTER ")" },
    /* Formats of numbers (OpenAPI), which say nothing of strings. */
    { "int32", NULL },
    { "int64", NULL },
    { "float", NULL },
    { "double", NULL },
};

SchemaText schema_text_format(SchemaCompiler *c, const json_t *schema, const char *format) {
    SchemaText text = SCHEMA_TEXT_ANY;
    size_t i = 0;
    int r;

    while (i < ARRAY_LEN(formats) && strcmp(formats[i].name, format) != 0)
        i++;
    if (i == ARRAY_LEN(formats)) {
        schema_unsupported(c, schema, "format", "the format '%s' is not known", format);
        return text;
    }
    if (!formats[i].pattern || c->r)
        return text;
    text.kind = SCHEMA_TEXT_PART;
    text.has_some = true;
    r = grammar_part_regex(c->builder, formats[i].pattern, strlen(formats[i].pattern), GRAMMAR_REGEX_JSON, &text.part,
                           c->err);
    if (r)
        c->r = r;
    return strcmp(format, "hostname") ? text : schema_text_and(c, text, schema_text_length(c, 1, HOSTNAME_MAX));
}
