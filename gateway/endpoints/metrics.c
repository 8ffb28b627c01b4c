// SPDX-License-Identifier: Apache-2.0
/* GET /metrics */
#include "gateway/endpoints/metrics_text.h"
#include "gateway/service/query.h"

static int start(void *arg, CoordgenClient *client, Query *query, uint64_t *request_idp) {
    return coordgen_status_start(client, -1, query_on_event, query, request_idp);
}

static int take(void *arg, const CoordgenReply *reply, Exchange *exchange) {
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;

    metrics_text(&text, reply);
    if (str_buf_failed(&text))
        exchange_reply_json(exchange, 500, NULL);
    else
        exchange_reply(exchange, 200, "text/plain; version=0.0.4; charset=utf-8", text.data ? text.data : "",
                       text.len_bytes);
    return 0;
}

void endpoint_metrics(Gateway *gateway, Exchange *exchange) {
    static const QueryOps ops = { .start = start, .take = take };

    query_run(gateway, exchange, &ops);
}
