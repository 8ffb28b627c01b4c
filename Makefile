# SPDX-License-Identifier: Apache-2.0
# coordgen: `make help` lists the targets. Variants are variables: CC=clang, CC=aarch64-linux-gnu-gcc, PLATFORM=musl,
# SAN=address,undefined, SAN=thread, WITH_SYSTEMD=no, OPT=.
# Every platform, compiler, sanitizer and set of libraries has a build directory of its own; a change of other flags
# rebuilds what is there.
comma := ,
empty :=
space := $(empty) $(empty)
VERSION := 0.1.0
SONAME_MAJOR := 0

# --- platforms, and libraries that may be left out ----------------------------------------------------------------------
# glibc; musl, with static programs and the libraries of tools/musl-libs; android, with the NDK's CC (docs/android.md).
PLATFORM ?= glibc
ifeq ($(filter glibc musl android,$(PLATFORM)),)
$(error PLATFORM=$(PLATFORM) is not known: say glibc, musl or android)
endif
ifeq ($(PLATFORM)$(origin CC),musldefault)
CC := musl-gcc
endif
# WITH_NAME=yes or no, the package and the file that needs it. With no, FILE_none.c is compiled in the place of FILE.c.
OPTIONAL := SYSTEMD OPENBLAS LIBEDIT URING HTTPD
OFF_musl := SYSTEMD OPENBLAS LIBEDIT HTTPD
OFF_android := $(OPTIONAL)
package_SYSTEMD := libsystemd
package_OPENBLAS := openblas
package_LIBEDIT := libedit
package_URING := liburing
package_HTTPD := libmicrohttpd
file_SYSTEMD := daemon/systemd/journal_sink
file_OPENBLAS := quant/rounding/blas
file_LIBEDIT := client/ctl/ctl_edit
file_URING := base/files/extent_uring
# WITH_HTTPD=no leaves out the gateway, folder and program.
default_of = $(if $(filter $(1),$(OFF_$(PLATFORM))),no,yes)
$(foreach name,$(OPTIONAL),$(eval WITH_$(name) ?= $(call default_of,$(name))))
$(foreach name,$(OPTIONAL),$(if $(filter yes no,$(WITH_$(name))),,$(error WITH_$(name)=$(WITH_$(name)): say yes or no)))
PRESENT := $(foreach name,$(OPTIONAL),$(if $(filter yes,$(WITH_$(name))),$(name)))
ABSENT := $(filter-out $(PRESENT),$(OPTIONAL))
# Of a choice that is not the platform's own the build directory tells.
CHOSEN := $(foreach name,$(OPTIONAL),$(if $(filter $(WITH_$(name)),$(call default_of,$(name))),,$(if \
          $(filter yes,$(WITH_$(name))),with,without)-$(patsubst lib%,%,$(package_$(name)))))

# --- folders of the system's service (base/files/paths.h, packaging/) ---------------------------------------------------------
PATH_VARS := SYSCONFDIR VENDORDIR STATEDIR CACHEDIR RUNTIMEDIR MODELDIR API_SOCKET ADMIN_SOCKET
ifeq ($(PLATFORM),android)
SYSCONFDIR ?= /system/etc
VENDORDIR ?= /vendor/etc
STATEDIR ?= /data/misc
CACHEDIR ?= /data/misc/coordgen/cache
RUNTIMEDIR ?= /data/misc/coordgen/run
API_SOCKET ?= /dev/socket/coordgend
ADMIN_SOCKET ?= /dev/socket/coordgend_admin
endif
SYSCONFDIR ?= /etc
VENDORDIR ?= /usr/lib
STATEDIR ?= /var/lib
CACHEDIR ?= /var/cache
RUNTIMEDIR ?= /run
MODELDIR ?= $(STATEDIR)/coordgen/models
API_SOCKET ?= $(RUNTIMEDIR)/coordgen/api.sock
ADMIN_SOCKET ?= $(RUNTIMEDIR)/coordgen/admin.sock
$(foreach name,$(PATH_VARS),$(if $(filter /%,$($(name))),,$(error $(name)=$($(name)): say an absolute path)))

CLANG := $(if $(findstring clang,$(notdir $(CC))),clang)
# A compiler for another machine, by its name: aarch64-linux-gnu-gcc, clang --target=aarch64-linux-gnu. Libraries then
# come from SYSROOT (tools/aarch64-sysroot makes one), or from wherever the environment points pkg-config and CC.
TARGET := $(or $(patsubst --target=%,%,$(filter --target=%,$(CC))),$(if $(findstring -gcc,$(notdir \
          $(firstword $(CC)))),$(filter-out musl,$(firstword $(subst -gcc, ,$(notdir $(firstword $(CC))))))))
TARGET := $(or $(TARGET),$(if $(findstring -linux-android,$(notdir $(CC))),$(firstword $(subst -clang, ,$(notdir $(firstword $(CC)))))))
CROSS := $(if $(TARGET),$(filter-out $(shell uname -m),$(firstword $(subst -, ,$(TARGET)))))
TOOL := $(if $(filter android,$(PLATFORM)),llvm-,$(if $(CROSS),$(TARGET)-))
SYSROOT ?= $(if $(filter android,$(PLATFORM)),,$(if $(CROSS),$(abspath $(wildcard build/$(CROSS)/sysroot))))
EMULATOR ?= $(if $(CROSS),qemu-$(CROSS) $(if $(SYSROOT),-L $(SYSROOT)))
VARIANT := $(subst $(space),-,$(strip $(CROSS) $(filter-out glibc,$(PLATFORM)) $(CLANG) $(CHOSEN) $(if $(SAN),san-$(subst $(comma),-,$(SAN)))))
BUILD := build$(if $(VARIANT),/$(VARIANT))
OBJ := $(BUILD)/obj
# Libraries of a platform that are no packages of this system: include/, lib/, lib/pkgconfig/. For Android they are the
# builder's own.
LIBRARIES_DIR ?= $(if $(filter musl,$(PLATFORM)),$(abspath build/musl/sysroot))

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:
.SECONDARY:

# Goals that compile nothing themselves, so that they work before the packages are there.
PLAIN_GOALS := help clean dist lint format check check-long demo install-deps install-aarch64 install-musl uninstall
BUILDING := $(filter-out $(PLAIN_GOALS),$(or $(MAKECMDGOALS),all))

# --- packages --------------------------------------------------------------------------------------------------------
PKGS := libevent libprotobuf-c libsystemd libpcre2-8 libutf8proc jansson nettle libedit openblas liburing sqlite3 libzstd \
        libmicrohttpd
PKGS := $(filter-out $(foreach name,$(ABSENT),$(package_$(name))),$(PKGS))
ifneq ($(BUILDING),)
ifneq ($(shell for tool in pkg-config protoc-c $(firstword $(CC)); do command -v $$tool >/dev/null || echo $$tool; done),)
$(error One of pkg-config, protoc-c, $(firstword $(CC)) is missing: run tools/install-deps (as root, or with sudo) and then make again)
endif
PKG_CONFIG ?= $(if $(LIBRARIES_DIR),env PKG_CONFIG_PATH= PKG_CONFIG_LIBDIR=$(LIBRARIES_DIR)/lib/pkgconfig,$(if \
              $(SYSROOT),env PKG_CONFIG_PATH= PKG_CONFIG_SYSROOT_DIR=$(SYSROOT) \
              PKG_CONFIG_LIBDIR=$(SYSROOT)/usr/lib/$(TARGET)/pkgconfig:$(SYSROOT)/usr/share/pkgconfig)) pkg-config
HOW_TO_GET_THEM := $(if $(filter musl,$(PLATFORM)),Run tools/musl-libs,$(if $(filter android,$(PLATFORM)),Compile \
                   them into LIBRARIES_DIR= (docs/android.md),Run $(if $(CROSS),tools/$(CROSS)-sysroot,tools/install-deps \
                   (as root, or with sudo))))
PKGS_MISSING := $(strip $(foreach pkg,$(PKGS),$(shell $(PKG_CONFIG) --exists $(pkg) || echo $(pkg))))
ifneq ($(PKGS_MISSING),)
$(error The development files of these libraries are missing: $(PKGS_MISSING). $(HOW_TO_GET_THEM) and then make again$(foreach name,$(PRESENT),$(if $(filter $(package_$(name)),$(PKGS_MISSING)),; WITH_$(name)=no builds without $(package_$(name))))))
endif
PKG_CFLAGS := $(shell $(PKG_CONFIG) --cflags $(PKGS))
BASE_LIBS := $(shell $(PKG_CONFIG) --libs nettle $(filter liburing,$(PKGS))) -lm
# What the programs need of the makers of devices: make DEVICE_LIBS='-L/opt/vendor/lib -lvendor' (docs/porting.md).
DEVICE_LIBS ?=
CORE_LIBS := $(shell $(PKG_CONFIG) --libs libpcre2-8 libutf8proc) $(DEVICE_LIBS)
PROTO_LIBS := $(shell $(PKG_CONFIG) --libs libprotobuf-c)
DAEMON_LIBS := $(shell $(PKG_CONFIG) --libs libevent $(filter libsystemd,$(PKGS)))
# For programs that use the draft database; the others take nothing of it from libcore.a.
DRAFT_DB_LIBS := $(shell $(PKG_CONFIG) --libs sqlite3 libzstd)
JANSSON_LIBS := $(shell $(PKG_CONFIG) --libs jansson)
HTTPD_LIBS := $(if $(filter libmicrohttpd,$(PKGS)),$(shell $(PKG_CONFIG) --libs libmicrohttpd))
EDIT_LIBS := $(if $(filter libedit,$(PKGS)),$(shell $(PKG_CONFIG) --libs libedit))
MACHINE := $(shell $(CC) -dumpmachine)
endif

# --- flags -----------------------------------------------------------------------------------------------------------
# Warnings stop the build in a clone; a packager's build from a tarball goes on (WERROR=-Werror or WERROR= decide too).
WERROR ?= $(if $(wildcard .git),-Werror)
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wwrite-strings -Wundef -Wvla \
        -Wno-unused-parameter -Wno-psabi $(WERROR)
OPT ?= $(if $(SAN),-O1 -g1,-O3 -g)
# No contraction of a * b + c and no -ffast-math: the bits of a float operator are the source's.
FLAGS = -std=gnu11 $(OPT) $(WARN) -fno-common -fvisibility=hidden -ffp-contract=off -fPIC -pthread -MMD -MP -I. \
        -I$(OBJ)/gen -DCOORDGEN_VERSION='"$(VERSION)"' $(foreach name,$(PATH_VARS),-DCOORDGEN_$(name)='"$($(name))"') \
        $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer -fno-var-tracking) \
        $(if $(SYSROOT),--sysroot=$(SYSROOT)) $(if $(LIBRARIES_DIR),-isystem $(LIBRARIES_DIR)/include) $(PKG_CFLAGS) $(CPPFLAGS) $(CFLAGS)
LINK = $(CC) -pthread $(if $(SYSROOT),--sysroot=$(SYSROOT)) -Wl,--as-needed $(if $(SAN),-fsanitize=$(SAN)) \
       $(if $(LIBRARIES_DIR),-L$(LIBRARIES_DIR)/lib) $(LDFLAGS)
# musl's own way: a program that needs nothing of the system but its kernel.
STATIC := $(if $(filter musl,$(PLATFORM)),-static)

ifneq ($(BUILDING),)
FLAGS_NOW := $(CC) $(shell $(CC) -dumpfullversion -dumpversion) $(filter-out -Werror,$(FLAGS)) $(LINK)
ifneq ($(file <$(OBJ)/flags),$(FLAGS_NOW))
$(shell mkdir -p $(OBJ))
$(file >$(OBJ)/flags,$(FLAGS_NOW))
endif
endif

# --- sources: one static library a layer; a program links what its layer may see --------------------------------------
# A kernel file's suffix names the instructions it may use; files for another machine's are left out.
X86_KERNELS := %__avx2.c %__avx512.c %__avx512vbmi.c %__avx512vnni.c %__avx512vnnivbmi.c %__amx.c
ARM_KERNELS := %__neon.c %__neondot.c %__i8mm.c
OTHER_MACHINE := $(if $(filter x86_64-% amd64-%,$(MACHINE)),,$(X86_KERNELS)) $(if $(filter aarch64-%,$(MACHINE)),,$(ARM_KERNELS))
LEFT_OUT := $(foreach name,$(ABSENT),$(file_$(name)).c) $(foreach name,$(PRESENT),$(file_$(name))_none.c) \
            $(if $(filter android,$(PLATFORM)),base/system/c_library.c,base/system/c_library_android.c)
# A folder, and its rooms down to the second floor.
rooms = $(1) $(patsubst %/,%,$(wildcard $(addsuffix /*/,$(1)) $(addsuffix /*/*/,$(1))))
src = $(filter-out $(OTHER_MACHINE) $(LEFT_OUT),$(sort $(wildcard $(addsuffix /*.c,$(1)))))
objs = $(patsubst %.c,$(OBJ)/%.o,$(1))

BASE_SRC := $(call src,$(call rooms,base))
CORE_SRC := $(call src,$(call rooms,quant model text spec backends scheduler weights engine importer))
PROTO_SRC := $(call src,proto)
CLIENT_SRC := $(call src,client client/answer client/sampling)
CTL_SRC := $(filter-out client/ctl/coordgenctl.c,$(call src,$(call rooms,client/ctl)))
GATEWAY_SRC := $(if $(filter yes,$(WITH_HTTPD)),$(filter-out gateway/coordgen_httpd.c,$(call src,$(call rooms,gateway))))
DAEMON_SRC := $(filter-out daemon/coordgend.c,$(call src,$(call rooms,daemon)))
BASELINES_SRC := $(call src,tools/baselines)
EXIT_SRC := $(call src,tools/exit)
TRAIN_SRC := $(filter-out tools/train/coordgen_train_exit.c,$(call src,$(call rooms,tools/train)))
EVAL_SRC := $(filter-out tools/eval/coordgen_eval.c,$(call src,$(call rooms,tools/eval)))
BENCH_SRC := $(filter-out tools/bench/coordgen_bench.c,$(call src,$(call rooms,tools/bench)))

LIB_BASE := $(OBJ)/libbase.a
LIB_CORE := $(OBJ)/libcore.a
LIB_PROTO := $(OBJ)/libproto.a
LIB_CLIENT := $(OBJ)/libclient.a
LIB_CTL := $(OBJ)/libctl.a
LIB_DAEMON := $(OBJ)/libdaemon.a
LIB_GATEWAY := $(OBJ)/libgateway.a
LIB_BASELINES := $(OBJ)/libbaselines.a
LIB_EXIT := $(OBJ)/libexit.a
LIB_TRAIN := $(OBJ)/libtrain.a
LIB_EVAL := $(OBJ)/libeval.a
LIB_BENCH := $(OBJ)/libbench.a

$(OBJ)/%__avx2.o: ISA := -mavx2 -mfma -mf16c
$(OBJ)/%__avx512.o: ISA := -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl
$(OBJ)/%__avx512vnni.o: ISA := -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni
$(OBJ)/%__avx512vbmi.o: ISA := -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vbmi
$(OBJ)/%__avx512vnnivbmi.o: ISA := -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni \
                             -mavx512vbmi
$(OBJ)/%__amx.o: ISA := -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mamx-tile -mamx-int8
# NEON itself is a part of every AArch64.
$(OBJ)/%__neondot.o: ISA := -march=armv8.2-a+dotprod
$(OBJ)/%__i8mm.o: ISA := -march=armv8.2-a+dotprod+i8mm

# What the sanitizers look at in kernels, which are most of their time. Kernels know no threads: the thread sanitizer
# watches who calls them. Undefined behaviour is looked for in the scalar builds, of the same source where that is shared;
# together with addresses it would take a minute a file of unrolled vector code at -O2, hence -O1. The int8 products of
# vectors are most of what a sanitized prompt takes: at -O2 their sums stay in registers, for no longer a compilation.
kernel_san_thread := -fno-sanitize=thread
# Packed products are large, and seldom run: as calls their checks compile in a third of the time.
kernel_san_address_undefined = $(if $(findstring __scalar,$(@F)),-O1,-fno-sanitize=undefined $(if $(findstring \
                               int8_product__,$(@F)),-O2) $(if $(findstring packed_product__,$(@F)),$(CHECKS_AS_CALLS)))
CHECKS_AS_CALLS := $(if $(CLANG),,--param=asan-instrumentation-with-call-threshold=100)
kernel_san = $(if $(findstring __,$(@F)),$(kernel_san_$(subst $(comma),_,$(SAN))))
# The model of AMX tiles is a kernel in tests: unrolled as one, it takes 9 s at -O3 and 22 s with all checks.
$(OBJ)/test/unit/backends/cpu/int8_product_amx_model.o $(OBJ)/test/unit/backends/cpu/attention_amx_model.o: kernel_san = -O1 $(kernel_san_$(subst $(comma),_,$(SAN)))

# One short line a file; V=1 shows the commands.
Q := $(if $(V),,@)
say = $(if $(V),,@echo '  $(1)')
$(OBJ)/%.o: %.c $(OBJ)/flags | $(OBJ)/gen/proto/coordgen.pb-c.h
	@mkdir -p $(@D)
	$(call say,CC    $<)
	$(Q)$(CC) $(FLAGS) $(kernel_san) $(ISA) -c $< -o $@

GEN_SRC := $(OBJ)/gen/proto/coordgen.pb-c.c
$(OBJ)/gen/proto/coordgen.pb-c.h $(GEN_SRC) &: proto/coordgen.proto
	@mkdir -p $(OBJ)/gen
	$(Q)protoc-c --c_out=$(OBJ)/gen $<
$(OBJ)/gen/%.o: $(OBJ)/gen/%.c $(OBJ)/flags
	$(Q)$(CC) $(filter-out -Wshadow -Wmissing-prototypes,$(FLAGS)) -c $< -o $@

# Texts as the numbers of C arrays.
as_numbers = $(Q)od -An -v -tx1 $< | sed 's/ \(..\)/0x\1,/g' >$@
$(OBJ)/gen/%_bytes.inc: %.txt
	@mkdir -p $(@D)
	$(as_numbers)
$(OBJ)/importer/calibration_text.o: $(OBJ)/gen/importer/calibration_bytes.inc
$(OBJ)/importer/check/quantization_check.o: $(OBJ)/gen/importer/check/sample_bytes.inc

# The gateway's page: one file of its parts, as numbers too.
PAGE := gateway/page/page
PAGE_SCRIPTS := $(patsubst %,gateway/page/%.js,events markdown api answer page)
$(OBJ)/gen/$(PAGE).html: $(PAGE).html $(PAGE).css $(PAGE_SCRIPTS)
	@mkdir -p $(@D)
	$(Q)sed -e '/^@STYLE@$$/{' -e 'r $(PAGE).css' -e 'd' -e '}' \
	    -e '/^@SCRIPT@$$/{' $(foreach file,$(PAGE_SCRIPTS),-e 'r $(file)') -e 'd' -e '}' $< >$@
$(OBJ)/gen/%_bytes.inc: $(OBJ)/gen/%.html
	$(as_numbers)
$(OBJ)/$(PAGE).o: $(OBJ)/gen/$(PAGE)_bytes.inc

define archive
	@mkdir -p $(@D)
	@rm -f $@
	$(Q)$(TOOL)ar rcs $@ $(filter %.o,$^)
endef
$(LIB_BASE): $(call objs,$(BASE_SRC)) ; $(archive)
$(LIB_CORE): $(call objs,$(CORE_SRC)) ; $(archive)
$(LIB_PROTO): $(call objs,$(PROTO_SRC)) $(OBJ)/gen/proto/coordgen.pb-c.o ; $(archive)
$(LIB_CLIENT): $(call objs,$(CLIENT_SRC)) ; $(archive)
$(LIB_CTL): $(call objs,$(CTL_SRC)) ; $(archive)
$(LIB_DAEMON): $(call objs,$(DAEMON_SRC)) ; $(archive)
$(LIB_GATEWAY): $(call objs,$(GATEWAY_SRC)) ; $(archive)
$(LIB_BASELINES): $(call objs,$(BASELINES_SRC)) ; $(archive)
$(LIB_EXIT): $(call objs,$(EXIT_SRC)) ; $(archive)
$(LIB_TRAIN): $(call objs,$(TRAIN_SRC)) ; $(archive)
$(LIB_EVAL): $(call objs,$(EVAL_SRC)) ; $(archive)
$(LIB_BENCH): $(call objs,$(BENCH_SRC)) ; $(archive)

# --- programs --------------------------------------------------------------------------------------------------------
define link
	@mkdir -p $(@D)
	$(call say,LINK  $@)
	$(Q)$(LINK) $(STATIC) $(filter %.o,$^) $(filter %.a,$^) $(1) -o $@
endef

$(BUILD)/bin/coordgend: $(OBJ)/daemon/coordgend.o $(LIB_DAEMON) $(LIB_CORE) $(LIB_PROTO) $(LIB_BASE)
	$(call link,$(DAEMON_LIBS) $(JANSSON_LIBS) $(CORE_LIBS) $(DRAFT_DB_LIBS) $(PROTO_LIBS) $(BASE_LIBS))
$(BUILD)/bin/coordgenctl: $(OBJ)/client/ctl/coordgenctl.o $(LIB_CTL) $(LIB_CLIENT) $(LIB_CORE) $(LIB_PROTO) $(LIB_BASE)
	$(call link,$(EDIT_LIBS) $(JANSSON_LIBS) $(CORE_LIBS) $(PROTO_LIBS) $(BASE_LIBS))
$(BUILD)/bin/coordgen-httpd: $(OBJ)/gateway/coordgen_httpd.o $(LIB_GATEWAY) $(LIB_CLIENT) $(LIB_PROTO) $(LIB_BASE)
	$(call link,$(HTTPD_LIBS) $(shell $(PKG_CONFIG) --libs libevent) $(JANSSON_LIBS) $(PROTO_LIBS) $(BASE_LIBS))
$(BUILD)/bin/coordgen-eval: $(OBJ)/tools/eval/coordgen_eval.o $(LIB_EVAL) $(LIB_EXIT) $(LIB_BASELINES) $(LIB_CORE) $(LIB_BASE)
	$(call link,$(JANSSON_LIBS) $(CORE_LIBS) $(BASE_LIBS))
$(BUILD)/bin/coordgen-train-exit: $(OBJ)/tools/train/coordgen_train_exit.o $(LIB_TRAIN) $(LIB_EXIT) $(LIB_BASELINES) $(LIB_CORE) $(LIB_BASE)
	$(call link,$(JANSSON_LIBS) $(CORE_LIBS) $(BASE_LIBS))
$(BUILD)/bin/coordgen-bench: $(OBJ)/tools/bench/coordgen_bench.o $(LIB_BENCH) $(LIB_EVAL) $(LIB_EXIT) $(LIB_BASELINES) $(LIB_CORE) $(LIB_BASE)
	$(call link,$(JANSSON_LIBS) $(CORE_LIBS) $(BASE_LIBS))

PROGRAMS := $(patsubst %,$(BUILD)/bin/%,$(if $(wildcard daemon/coordgend.c),coordgend) \
            $(if $(wildcard client/ctl/coordgenctl.c),coordgenctl) $(if $(filter yes,$(WITH_HTTPD)),coordgen-httpd) $(if $(wildcard tools/eval/coordgen_eval.c),coordgen-eval) \
            $(if $(wildcard tools/bench/coordgen_bench.c),coordgen-bench) \
            $(if $(wildcard tools/train/coordgen_train_exit.c),coordgen-train-exit))

# --- client library --------------------------------------------------------------------------------------------------
# One relocatable object of the client and what it uses below it; in the static library only the public names stay
# visible, so that a program's own names cannot collide with ours.
CLIENT_SONAME := libcoordgen-client.so.$(SONAME_MAJOR)
CLIENT_SO := $(BUILD)/lib/libcoordgen-client.so.$(VERSION)
CLIENT_LINKS := $(BUILD)/lib/$(CLIENT_SONAME) $(BUILD)/lib/libcoordgen-client.so
CLIENT_A := $(BUILD)/lib/libcoordgen-client.a
LIBRARIES := $(if $(CLIENT_SRC),$(if $(STATIC),,$(CLIENT_SO) $(CLIENT_LINKS)) $(CLIENT_A))

$(CLIENT_SO): $(call objs,$(CLIENT_SRC)) $(LIB_PROTO) $(LIB_BASE) client/libcoordgen-client.map
	@mkdir -p $(@D)
	$(call say,LINK  $@)
	$(Q)$(LINK) -shared -Wl,-soname,$(CLIENT_SONAME) -Wl,--version-script,client/libcoordgen-client.map \
	    $(if $(SAN),,-Wl,-z,defs) $(filter %.o %.a,$^) $(PROTO_LIBS) $(BASE_LIBS) -o $@
$(CLIENT_LINKS): $(CLIENT_SO)
	$(Q)ln -sf $(notdir $(CLIENT_SO)) $@
$(CLIENT_A): $(call objs,$(CLIENT_SRC)) $(LIB_PROTO) $(LIB_BASE)
	@mkdir -p $(@D)
	$(call say,AR    $@)
	$(Q)$(TOOL)ld -r $(filter %.o %.a,$^) -o $(OBJ)/libcoordgen-client.o
	$(Q)$(TOOL)objcopy --localize-hidden $(OBJ)/libcoordgen-client.o
	@rm -f $@
	$(Q)$(TOOL)ar rcs $@ $(OBJ)/libcoordgen-client.o

.PHONY: all
all: $(PROGRAMS) $(LIBRARIES)

include mk/test.mk mk/install.mk

.PHONY: help
help:
	@echo 'make [all]            programs in $(BUILD)/bin, libraries in $(BUILD)/lib'
	@echo 'make demo             packages, build, default model, daemon, a function written; MODEL=FILE.gguf PROMPT=FILE'
	@echo 'make check            packages, default model, all tests and sanitizer runs (20 to 30 minutes on two cores)'
	@echo 'make check-long       the same on all four models, with longer fuzzing'
	@echo 'make unit             unit tests; one: make $(BUILD)/test/test_NAME'
	@echo 'make integration      the real daemon on the real model; one: make integration T=test_stream'
	@echo 'make fuzz             libFuzzer on every target for FUZZ_SECONDS=10 (clang); fuzz-replay: the corpora, any compiler'
	@echo 'make lint             rules of the source tree; format: clang-format in place'
	@echo 'make bench            floors of this machine, speed of kernels, models and service beside them; PLOTS=DIR of plots'
	@echo 'make quant-table      bytes and quality of every recipe; COORDGEN_DATA=DIR of the texts, MODELS=a,b ROWS=SPEC,... LIMIT=questions'
	@echo 'make install          DESTDIR= PREFIX=/usr/local LIBDIR=; uninstall'
	@echo 'make install-deps     the Debian packages that all of this needs'
	@echo 'make clean, make dist'
	@echo 'Variables: CC=clang  CC=aarch64-linux-gnu-gcc (after tools/aarch64-sysroot)  SAN=address,undefined  SAN=thread  OPT="-O0 -g"  WERROR=  CFLAGS=  LDFLAGS=  V=1'
	@echo 'Folders, absolute: $(foreach name,$(PATH_VARS),$(name)=$($(name)))'
	@echo 'PLATFORM=musl (after tools/musl-libs)  PLATFORM=android (docs/android.md)  $(foreach name,$(OPTIONAL),WITH_$(name)=no)'

.PHONY: install-deps
install-deps:
	@tools/install-deps

.PHONY: clean
clean:
	rm -rf build

.PHONY: dist
dist:
	@mkdir -p build
	git archive --format=tar --prefix=coordgen-$(VERSION)/ HEAD | gzip -9n > build/coordgen-$(VERSION).tar.gz
	@echo build/coordgen-$(VERSION).tar.gz

ifneq ($(BUILDING),)
-include $(shell find $(OBJ) -name '*.d' 2>/dev/null)
endif
