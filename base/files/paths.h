// SPDX-License-Identifier: Apache-2.0
/* The paths of the system's service. The folders come from the Makefile (SYSCONFDIR=, STATEDIR=, ...); a service that
 * systemd or a user starts gets others from its environment. */
#ifndef COORDGEN_BASE_PATHS_H
#define COORDGEN_BASE_PATHS_H

/* Folders of settings: a later one wins; the middle one is empty after a reboot. */
#define PATH_CONFIG_VENDOR COORDGEN_VENDORDIR
#define PATH_CONFIG_RUNTIME COORDGEN_RUNTIMEDIR
#define PATH_CONFIG_SYSTEM COORDGEN_SYSCONFDIR

#define PATH_STATE_DIR COORDGEN_STATEDIR "/coordgen"
#define PATH_CACHE_DIR COORDGEN_CACHEDIR "/coordgen"
#define PATH_MODEL_DIR COORDGEN_MODELDIR /* packaging/tmpfiles.d makes it */
#define PATH_API_SOCKET COORDGEN_API_SOCKET
#define PATH_ADMIN_SOCKET COORDGEN_ADMIN_SOCKET

#endif
