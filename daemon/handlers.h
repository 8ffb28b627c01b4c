/* What each message of a client leads to. */
#ifndef COORDGEN_DAEMON_HANDLERS_H
#define COORDGEN_DAEMON_HANDLERS_H

#include "daemon/connection.h"

/* A decoded message of len_bytes; requests that take time keep it. */
void handlers_serve(Connection *connection, Coordgen__V1__Request **messagep, size_t len_bytes);

/* handlers_model.c */
void handle_model_list(Connection *connection, uint64_t request_id);
void handle_model_show(Connection *connection, uint64_t request_id, const char *name);
void handle_model_load(Connection *connection, Coordgen__V1__Request **messagep, size_t len_bytes);
void handle_model_unload(Connection *connection, Coordgen__V1__Request **messagep, size_t len_bytes);
/* The model of that name, or NULL and the error is sent. */
Model *handler_find_model(Connection *connection, uint64_t request_id, const char *name, const char *field);

/* handlers_status.c */
void handle_status(Connection *connection, uint64_t request_id);

/* handlers_engine.c: what the engine thread answers */
void handle_generate(Connection *connection, Coordgen__V1__Request **messagep, size_t len_bytes);
void handle_tokenize(Connection *connection, Coordgen__V1__Request **messagep, size_t len_bytes);
void handle_detokenize(Connection *connection, Coordgen__V1__Request **messagep, size_t len_bytes);

#endif
