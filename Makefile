# coordgen: `make help` lists the targets. Variants are variables: CC=clang, SAN=address,undefined, SAN=thread, WERROR=.
comma := ,
PREFIX ?= /usr/local
VERSION := 0.1.0
BUILD := build$(if $(SAN),/san-$(subst $(comma),-,$(SAN)))
OBJ := $(BUILD)/obj

PKGS := libevent libprotobuf-c libsystemd libpcre2-8 libutf8proc jansson nettle libedit
PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
WERROR ?= -Werror
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wwrite-strings -Wundef -Wvla \
        -Wno-unused-parameter -Wno-psabi $(WERROR)
OPT ?= -O3 -g
FLAGS = -std=gnu11 $(OPT) $(WARN) -fno-common -fvisibility=hidden -ffp-contract=off -fPIC -pthread -MMD -MP -I. \
        -I$(OBJ)/gen -DCOORDGEN_VERSION='"$(VERSION)"' $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all) \
        $(PKG_CFLAGS) $(CPPFLAGS) $(CFLAGS)
LINK = $(CC) -pthread $(if $(SAN),-fsanitize=$(SAN)) $(LDFLAGS)

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:

# --- sources: one static library a layer; a program links what its layer may see -----------------------------------
src = $(sort $(wildcard $(addsuffix /*.c,$(1))))
objs = $(patsubst %.c,$(OBJ)/%.o,$(1))

BASE_SRC := $(call src,base)
CORE_SRC := $(call src,quant model backends backends/reference backends/cpu scheduler engine)
PROTO_SRC := $(call src,proto)
CLIENT_SRC := $(call src,client)
CTL_SRC := $(call src,client/ctl)
DAEMON_SRC := $(call src,daemon)
EVAL_SRC := $(call src,eval)

LIB_BASE := $(OBJ)/libbase.a
LIB_CORE := $(OBJ)/libcore.a
LIB_PROTO := $(OBJ)/libproto.a
LIB_CLIENT := $(OBJ)/libclient.a
LIB_DAEMON := $(OBJ)/libdaemon.a

BASE_LIBS := $(shell pkg-config --libs nettle 2>/dev/null) -lm
CORE_LIBS := $(shell pkg-config --libs libpcre2-8 libutf8proc 2>/dev/null)
PROTO_LIBS := $(shell pkg-config --libs libprotobuf-c 2>/dev/null)
DAEMON_LIBS := $(shell pkg-config --libs libevent libsystemd 2>/dev/null)
JANSSON_LIBS := $(shell pkg-config --libs jansson 2>/dev/null)
EDIT_LIBS := $(shell pkg-config --libs libedit 2>/dev/null)

$(OBJ)/%__avx2.o: ISA := -mavx2 -mfma -mf16c
$(OBJ)/%__avx512.o: ISA := -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl
$(OBJ)/%__avx512vnni.o: ISA := -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni
$(OBJ)/%__amx.o: ISA := -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mamx-tile -mamx-int8

$(OBJ)/%.o: %.c | $(OBJ)/gen/proto/coordgen.pb-c.h
	@mkdir -p $(@D)
	$(CC) $(FLAGS) $(ISA) -c $< -o $@

GEN_SRC := $(OBJ)/gen/proto/coordgen.pb-c.c
$(OBJ)/gen/proto/coordgen.pb-c.h $(GEN_SRC) &: proto/coordgen.proto
	@mkdir -p $(OBJ)/gen
	protoc-c --c_out=$(OBJ)/gen $<
$(OBJ)/gen/%.o: $(OBJ)/gen/%.c
	$(CC) $(filter-out -Wshadow -Wmissing-prototypes,$(FLAGS)) -c $< -o $@

define archive
	@mkdir -p $(@D)
	@rm -f $@
	ar rcs $@ $^
endef
$(LIB_BASE): $(call objs,$(BASE_SRC)) ; $(archive)
$(LIB_CORE): $(call objs,$(CORE_SRC)) ; $(archive)
$(LIB_PROTO): $(call objs,$(PROTO_SRC)) $(OBJ)/gen/proto/coordgen.pb-c.o ; $(archive)
$(LIB_CLIENT): $(call objs,$(CLIENT_SRC)) ; $(archive)
$(LIB_DAEMON): $(call objs,$(filter-out daemon/coordgend.c,$(DAEMON_SRC))) ; $(archive)

# --- unit tests: test/unit/test_X.c is a program of its own ---------------------------------------------------------
UNIT_SRC := $(call src,test/unit)
UNIT_BIN := $(patsubst test/unit/%.c,$(BUILD)/test/%,$(filter test/unit/test_%,$(UNIT_SRC)))
UNIT_HELP := $(call objs,$(filter-out test/unit/test_%,$(UNIT_SRC)))
CMOCKA_LIBS := $(shell pkg-config --libs cmocka 2>/dev/null)
ALL_LIBS = $(LIB_DAEMON) $(LIB_CORE) $(LIB_CLIENT) $(LIB_PROTO) $(LIB_BASE)
ALL_SYS = $(CMOCKA_LIBS) $(DAEMON_LIBS) $(CORE_LIBS) $(PROTO_LIBS) $(JANSSON_LIBS) $(BASE_LIBS)

$(BUILD)/test/test_%: $(OBJ)/test/unit/test_%.o $(UNIT_HELP) $(ALL_LIBS)
	@mkdir -p $(@D)
	$(LINK) $< $(UNIT_HELP) $(ALL_LIBS) $(ALL_SYS) -o $@

.PHONY: unit
unit: $(UNIT_BIN)
	@set -e; for t in $(UNIT_BIN); do echo "== $$t"; $$t; done

-include $(shell find $(OBJ) -name '*.d' 2>/dev/null)
