// SPDX-License-Identifier: Apache-2.0
/* Handlers of clients' messages, one for each operation of a request, and what they share. handlers.c calls them. */
#ifndef COORDGEN_DAEMON_HANDLERS_LIST_H
#define COORDGEN_DAEMON_HANDLERS_LIST_H

#include "daemon/net/peer.h"
#include "daemon/requests/request_table.h"
#include "daemon/requests/session.h"
#include "daemon/service.h"
#include "text/chat/chat_template.h"

/* handlers_model.c */
enum {
    MODELS_A_UNIT = 8, /* models described, or files looked at, for one unit of connection_spend() */
};
void handle_model_list(Peer *peer, uint64_t request_id);
void handle_model_show(Peer *peer, uint64_t request_id, const char *name);
void handle_model_load(Peer *peer, Coordgen__V1__Request **messagep, size_t len_bytes);
void handle_model_unload(Peer *peer, Coordgen__V1__Request **messagep, size_t len_bytes);
void handler_on_scan(evutil_socket_t fd, short what, void *arg); /* of Service.scan; arg: the service */
/* Finds a model by its name. NULL: the error is sent, or the message comes again when the folder has been read. */
Model *handler_find_model(Peer *peer, uint64_t request_id, const char *name, const char *field);

/* Loads the model of a request, if the settings allow that. named: the request's name of it, or NULL. false: the error
 * is sent. */
bool handler_demand_model(Peer *peer, uint64_t request_id, Model *model, const char *named);

/* handlers_default.c */
void handle_model_default(Peer *peer, uint64_t request_id, const Coordgen__V1__ModelDefaultRequest *request);

/* handlers_pair.c */
void handle_model_pair_list(Peer *peer, uint64_t request_id);
void handle_model_pair(Peer *peer, uint64_t request_id, const Coordgen__V1__ModelPairRequest *pair);

/* handlers_status.c */
void handle_status(Peer *peer, uint64_t request_id);

/* handlers_explain.c */
void handle_request_list(Peer *peer, uint64_t request_id);
void handle_explain(Peer *peer, uint64_t request_id, const Coordgen__V1__ExplainRequest *explain);
void handle_request_cancel(Peer *peer, uint64_t request_id, const Coordgen__V1__RequestCancelRequest *cancel);
/* handlers_files.c */
void handle_model_remove(Peer *peer, uint64_t request_id, const Coordgen__V1__ModelRemoveRequest *remove);
void handle_disk(Peer *peer, uint64_t request_id);
void handle_prune(Peer *peer, uint64_t request_id, const Coordgen__V1__PruneRequest *prune);
/* handlers_draftdb.c */
void handle_draft_db(Peer *peer, const Coordgen__V1__Request *message);   /* all five */
void handler_on_draft_answers(evutil_socket_t fd, short what, void *arg); /* of the draft store; arg: the service */
bool handler_has_draft_call(const Peer *peer, uint64_t request_id);
void handler_end_draft_calls(Peer *peer); /* it is gone */

/* handlers_input.c */
/* Makes a list of @before and the messages, for the engine; texts are not copied. NULL: no memory. */
ChatMessage *handler_messages(const Coordgen__V1__Messages *messages, const ChatMessage *before, size_t n_before);
size_t handler_messages_bytes(const Coordgen__V1__Messages *messages);
/* Checks the length of a text against prompt-max. false: the error is sent. */
bool handler_text_fits(Peer *peer, uint64_t request_id, size_t len_bytes, const char *field);

/* handlers_session.c */
void handle_session_open(Peer *peer, uint64_t request_id, const Coordgen__V1__SessionOpenRequest *open);
void handle_session_fork(Peer *peer, uint64_t request_id, const Coordgen__V1__SessionForkRequest *fork);
void handle_session_close(Peer *peer, uint64_t request_id, const Coordgen__V1__SessionCloseRequest *close);
/* Finds the client's session of that number. NULL: the error is sent. */
Session *handler_find_session(Peer *peer, uint64_t request_id, uint64_t id, const char *field);

/* Checks what every request that takes time must pass. Return: its model, or NULL and the error is sent. */
Model *handler_admit(Peer *peer, uint64_t request_id, const char *name, const char *field);
/* Makes the request of a message, which the request keeps. NULL: the error is sent. */
Request *handler_new_request(Peer *peer, Coordgen__V1__Request **messagep, size_t len_bytes, Model *model);
/* Returns the limit of one user's apps on memory for keys and values, which leaves others a part. 0: no limit. */
uint64_t handler_kv_share_bytes(const Peer *peer);
/* Returns the class that a request asks for; normal if it asks for none. */
Priority handler_priority(bool is_set, Coordgen__V1__Priority priority);

/* handlers_embed.c */
void handle_embed(Peer *peer, Coordgen__V1__Request **messagep, size_t len_bytes);

/* handlers_engine.c: requests that the engine thread answers */
void handle_generate(Peer *peer, Coordgen__V1__Request **messagep, size_t len_bytes);
void handle_tokenize(Peer *peer, Coordgen__V1__Request **messagep, size_t len_bytes);
void handle_detokenize(Peer *peer, Coordgen__V1__Request **messagep, size_t len_bytes);

#endif
