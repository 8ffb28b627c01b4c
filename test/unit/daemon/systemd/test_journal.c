// SPDX-License-Identifier: Apache-2.0
/* The log targets of a build with and without the journal. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "daemon/systemd/journal.h"
#include "daemon/systemd/journal_sink.h"

static void test_journal_check(void **state) {
    const JournalSink *sink = journal_sink();
    ErrText err = { 0 };

    assert_int_equal(journal_check(LOG_TARGET_AUTO, &err), 0);
    assert_int_equal(journal_check(LOG_TARGET_STDERR, &err), 0);
    assert_int_equal(journal_check(LOG_TARGET_JOURNAL, &err), sink ? 0 : -EINVAL);
    assert_int_equal(!strstr(err.text, "auto or stderr"), !!sink); /* the text names the remedy */
}

/* In a build without the journal "auto" logs to stderr, whatever stderr is. */
static void test_journal_open(void **state) {
    journal_open(LOG_TARGET_STDERR);
    assert_false(journal_takes_priorities());
    journal_open(LOG_TARGET_AUTO);
    log_info(TOPIC_DAEMON, "a line");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_journal_check),
        cmocka_unit_test(test_journal_open),
    };

    return cmocka_run_group_tests_name("journal", tests, NULL, NULL);
}
