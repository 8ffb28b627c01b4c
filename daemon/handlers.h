// SPDX-License-Identifier: Apache-2.0
/* What each message of a client leads to. */
#ifndef COORDGEN_DAEMON_HANDLERS_H
#define COORDGEN_DAEMON_HANDLERS_H

#include "daemon/connection.h"
#include "text/chat_template.h"

/* A decoded message of len_bytes; requests that take time keep it. */
void handlers_serve(Connection *connection, Coordgen__V1__Request **messagep, size_t len_bytes);

/* handlers_model.c */
enum {
    MODELS_A_UNIT = 8, /* of connection_spend(): so many are described, or their files looked at */
};
void handle_model_list(Connection *connection, uint64_t request_id);
void handle_model_show(Connection *connection, uint64_t request_id, const char *name);
void handle_model_load(Connection *connection, Coordgen__V1__Request **messagep, size_t len_bytes);
void handle_model_unload(Connection *connection, Coordgen__V1__Request **messagep, size_t len_bytes);
/* The model of that name, or NULL: the error is sent, or the message comes again when the folder has been read. */
Model *handler_find_model(Connection *connection, uint64_t request_id, const char *name, const char *field);

/* handlers_status.c */
void handle_status(Connection *connection, uint64_t request_id);

/* handlers_session.c */
void handle_session_open(Connection *connection, uint64_t request_id, const Coordgen__V1__SessionOpenRequest *open);
void handle_session_fork(Connection *connection, uint64_t request_id, const Coordgen__V1__SessionForkRequest *fork);
void handle_session_close(Connection *connection, uint64_t request_id, const Coordgen__V1__SessionCloseRequest *close);
/* The connection's session of that number, or NULL and the error is sent. */
Session *handler_find_session(Connection *connection, uint64_t request_id, uint64_t id, const char *field);

/* handlers_engine.c: what the engine thread answers */
void handle_generate(Connection *connection, Coordgen__V1__Request **messagep, size_t len_bytes);
void handle_tokenize(Connection *connection, Coordgen__V1__Request **messagep, size_t len_bytes);
/* The messages behind some others, as the engine wants them; texts stay where they are. NULL: no memory. */
ChatMessage *handler_messages(const Coordgen__V1__Messages *messages, const ChatMessage *before, size_t n_before);
size_t handler_messages_bytes(const Coordgen__V1__Messages *messages);
/* Whether so much text is allowed; if not, the error is sent. */
bool handler_text_fits(Connection *connection, uint64_t request_id, size_t len_bytes, const char *field);
void handle_detokenize(Connection *connection, Coordgen__V1__Request **messagep, size_t len_bytes);

#endif
