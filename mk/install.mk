# SPDX-License-Identifier: Apache-2.0
# install and uninstall. Both walk one list of "source destination mode", so that they cannot disagree.
PREFIX ?= /usr/local
DESTDIR ?=
MULTIARCH := $(shell $(CC) -print-multiarch 2>/dev/null || :)
BINDIR ?= $(PREFIX)/bin
LIBDIR ?= $(PREFIX)/lib$(if $(MULTIARCH),/$(MULTIARCH))
INCLUDEDIR ?= $(PREFIX)/include
DATADIR ?= $(PREFIX)/share
MANDIR ?= $(DATADIR)/man
UNITDIR ?= $(PREFIX)/lib/systemd/system
USERUNITDIR ?= $(PREFIX)/lib/systemd/user
SYSUSERSDIR ?= $(PREFIX)/lib/sysusers.d
TMPFILESDIR ?= $(PREFIX)/lib/tmpfiles.d
DOCDIR ?= $(DATADIR)/doc/coordgen

# Templates (*.in) hold @NAME@ for these directories; they are filled in anew at every install.
TEMPLATE_VARS := PREFIX BINDIR LIBDIR INCLUDEDIR DATADIR DOCDIR VERSION $(PATH_VARS)
templated = $(patsubst %.in,$(BUILD)/%,$(1))
FILLED := $(call templated,$(wildcard packaging/*/*.in))
$(BUILD)/packaging/%: packaging/%.in FORCE
	@mkdir -p $(@D)
	@sed $(foreach var,$(TEMPLATE_VARS),-e 's|@$(var)@|$($(var))|g') $< >$@
.PHONY: FORCE
FORCE:

# MODE:SOURCE:DESTINATION, one word each.
# Files of a program that is left out are left out too.
LEFT_OUT_FILES := $(if $(GATEWAY_SRC),,%/coordgen-httpd %/coordgen-httpd.8 %/coordgen-httpd.socket %/coordgen-httpd.service)
packaged = $(filter-out $(LEFT_OUT_FILES),$(wildcard packaging/$(1)) $(patsubst %.in,$(BUILD)/%,$(wildcard packaging/$(1).in)))
items = $(foreach file,$(2),$(1):$(file):$(3)/$(notdir $(file)))
man_items = $(foreach page,$(filter-out $(LEFT_OUT_FILES),$(wildcard packaging/man/*.[1-8])),644:$(page):$(MANDIR)/man$(patsubst .%,%,$(suffix $(page)))/$(notdir $(page)))
INSTALL_ITEMS = \
    $(call items,755,$(PROGRAMS),$(BINDIR)) \
    $(call items,755,$(filter $(CLIENT_SO),$(LIBRARIES)),$(LIBDIR)) \
    $(call items,644,$(if $(CLIENT_SRC),$(CLIENT_A)),$(LIBDIR)) \
    $(call items,644,$(wildcard client/coordgen-client*.h),$(INCLUDEDIR)) \
    $(call items,644,$(call packaged,pkgconfig/*.pc),$(LIBDIR)/pkgconfig) \
    $(call items,644,$(call packaged,systemd/*.service) $(call packaged,systemd/*.socket),$(UNITDIR)) \
    $(call items,644,$(call packaged,systemd-user/*.service) $(call packaged,systemd-user/*.socket),$(USERUNITDIR)) \
    $(call items,644,$(call packaged,sysusers.d/*.conf),$(SYSUSERSDIR)) \
    $(call items,644,$(call packaged,tmpfiles.d/*.conf),$(TMPFILESDIR)) \
    $(call items,644,$(call packaged,catalog/*.catalog),$(PREFIX)/lib/systemd/catalog) \
    $(call items,644,$(filter-out $(LEFT_OUT_FILES),$(wildcard packaging/completions/bash/*)),$(DATADIR)/bash-completion/completions) \
    $(call items,644,$(wildcard packaging/completions/zsh/*),$(DATADIR)/zsh/vendor-completions) \
    $(call items,644,$(wildcard packaging/conf/*) packaging/copyright $(wildcard docs/*.md) LICENSE,$(DOCDIR)) \
    $(call items,644,$(wildcard docs/lab/*),$(DOCDIR)/lab) \
    $(call items,644,proto/coordgen.proto,$(DATADIR)/coordgen) \
    $(call items,644,$(filter-out $(if $(GATEWAY_SRC),,packaging/examples/coordgen-httpd%),$(wildcard packaging/examples/* client/example/*.c)),$(DOCDIR)/examples) \
    $(call items,755,tools/fetch-model,$(PREFIX)/lib/coordgen) \
    $(call items,644,tools/models.json,$(PREFIX)/lib/coordgen) \
    $(man_items)

.PHONY: install uninstall
install: all $(FILLED)
	@set -e; for item in $(INSTALL_ITEMS); do \
	     mode=$${item%%:*} rest=$${item#*:}; source=$${rest%%:*} dest=$${rest#*:}; \
	     install -D -m $$mode "$$source" "$(DESTDIR)$$dest"; echo "$(DESTDIR)$$dest"; \
	 done
	@set -e; for link in $(notdir $(filter $(CLIENT_LINKS),$(LIBRARIES))); do \
	     ln -sf $(notdir $(CLIENT_SO)) "$(DESTDIR)$(LIBDIR)/$$link"; echo "$(DESTDIR)$(LIBDIR)/$$link"; \
	 done
	@if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ]; then ldconfig; fi
	@[ -n "$(DESTDIR)" ] || printf '%s\n' 'Next: sudo systemd-sysusers && sudo systemd-tmpfiles --create' \
	    '      sudo systemctl daemon-reload && sudo systemctl enable --now coordgend.socket coordgend-admin.socket' \
	    '      sudo coordgenctl model import FILE.gguf, or model pull NAME' >&2

# Without DESTDIR, root's uninstall ends the service first. Settings, models and state of the system and of users stay.
UNITS := coordgend.socket coordgend-admin.socket coordgend.service
USER_UNITS := $(UNITS) coordgen-httpd.socket coordgen-httpd.service
uninstall:
	@if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ] && [ -d /run/systemd/system ]; then \
	     systemctl disable --now $(UNITS) 2>/dev/null || :; systemctl --global disable $(USER_UNITS) 2>/dev/null || :; \
	 fi
	@for item in $(INSTALL_ITEMS); do rest=$${item#*:}; rm -f "$(DESTDIR)$${rest#*:}"; done
	@for link in $(notdir $(filter $(CLIENT_LINKS),$(LIBRARIES))); do rm -f "$(DESTDIR)$(LIBDIR)/$$link"; done
	@rmdir "$(DESTDIR)$(DOCDIR)/examples" "$(DESTDIR)$(DOCDIR)" "$(DESTDIR)$(DATADIR)/coordgen" \
	     "$(DESTDIR)$(PREFIX)/lib/coordgen" 2>/dev/null || :
	@if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ]; then \
	     ldconfig; [ ! -d /run/systemd/system ] || systemctl daemon-reload || :; \
	 fi
	@for path in $(LEFT_BEHIND); do \
	     [ ! -e "$(DESTDIR)$$path" ] || printf 'Left: %s (%s). To remove it: rm -r %s\n' "$(DESTDIR)$$path" \
	         "$$(du -sh "$(DESTDIR)$$path" 2>/dev/null | cut -f1)" "$(DESTDIR)$$path"; \
	 done
	@if [ -z "$(DESTDIR)" ] && getent passwd coordgen >/dev/null; then \
	     echo 'Left: the user and the group coordgen. To remove them: userdel coordgen'; \
	 fi
# What the service and its administrators have made: settings, models and the draft database, imports and images.
LEFT_BEHIND := $(SYSCONFDIR)/coordgen $(STATEDIR)/coordgen $(CACHEDIR)/coordgen
