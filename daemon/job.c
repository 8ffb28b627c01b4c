#include "daemon/job.h"

#include <stdlib.h>

int job_news_mark(JobNews *news) {
    if (news->n_marks == news->marks_room) {
        size_t room = news->marks_room ? 2 * news->marks_room : 8;
        JobMark *marks = reallocarray(news->marks, room, sizeof(*marks));

        if (!marks)
            return err_raise(-ENOMEM);
        news->marks = marks;
        news->marks_room = room;
    }
    news->marks[news->n_marks++] = (JobMark){ news->text.len_bytes, news->tokens.n };
    return 0;
}

void job_news_deinit(JobNews *news) {
    str_buf_deinit(&news->text);
    token_list_deinit(&news->tokens);
    free(news->marks);
    *news = (JobNews){ 0 };
}
