# SPDX-License-Identifier: Apache-2.0
# Tests: see test/README.md. `make check` runs them all through test/run-check, which keeps the logs in build/check/.

# --- unit tests: test/unit/FOLDER/test_X.c is a program of its own; other files there help all of them, and so does what every
# device must keep, test/device ------------------------------------------------------------------------------------------
UNIT_SRC := $(filter-out $(if $(filter no,$(WITH_HTTPD)),test/unit/gateway/%),$(call src,$(call rooms,$(wildcard test/unit/*))))
UNIT_TESTS := $(foreach file,$(UNIT_SRC),$(if $(filter test_%,$(notdir $(file))),$(file)))
UNIT_BIN := $(patsubst %.c,$(BUILD)/test/%,$(notdir $(UNIT_TESTS)))
UNIT_HELP := $(call objs,$(filter-out $(UNIT_TESTS),$(UNIT_SRC)) $(call src,test/device))
ALL_LIBS := $(LIB_TRAIN) $(LIB_BENCH) $(LIB_EVAL) $(LIB_EXIT) $(LIB_BASELINES) $(LIB_GATEWAY) $(LIB_DAEMON) $(LIB_CTL) $(LIB_CORE) $(LIB_CLIENT) $(LIB_PROTO) $(LIB_BASE)
ALL_SYS := $(DAEMON_LIBS) $(HTTPD_LIBS) $(EDIT_LIBS) $(CORE_LIBS) $(DRAFT_DB_LIBS) $(PROTO_LIBS) $(JANSSON_LIBS) $(BASE_LIBS)

# test/bench/bench_X.c is a program of its own; the other files there, baselines of the benches, are tested like any module.
BENCH_HELP := $(call objs,$(filter-out test/bench/bench_%,$(call src,test/bench)))
LIB_LAYOUTS := $(OBJ)/liblayouts.a
$(LIB_LAYOUTS): $(BENCH_HELP) ; $(archive)
BENCH_BIN := $(patsubst test/bench/bench_%.c,$(BUILD)/bin/bench-%,$(filter test/bench/bench_%,$(call src,test/bench)))
$(BUILD)/bin/bench-%: $(OBJ)/test/bench/bench_%.o $(LIB_LAYOUTS) $(LIB_BENCH) $(LIB_BASELINES) $(LIB_CORE) $(LIB_BASE)
	$(call link,$(JANSSON_LIBS) $(CORE_LIBS) $(BASE_LIBS))

$(OBJ)/test/%.o: CFLAGS += -UNDEBUG
# Some 250 programs, each with the whole library: lld, where it is there, takes half as long as ld for each. (A compiler
# for another machine looks for one under that machine's name; a static program of musl's ends at once with it.)
UNIT_LINKER := $(if $(BUILDING),$(if $(CROSS)$(STATIC),,$(if $(shell command -v ld.lld),-fuse-ld=lld)))
$(foreach file,$(UNIT_TESTS),$(eval $(BUILD)/test/$(basename $(notdir $(file))): $(OBJ)/$(basename $(file)).o))
$(BUILD)/test/test_%: $(UNIT_HELP) $(LIB_LAYOUTS) $(ALL_LIBS)
	$(call link,$(UNIT_LINKER) -lcmocka $(ALL_SYS))
# It counts what our code allocates; calls inside of libraries do not come by, and the sanitizers' do not mind.
$(BUILD)/test/test_forward: private LDFLAGS += $(addprefix -Wl$(comma)--wrap=,malloc calloc realloc aligned_alloc \
                                                strdup mmap)
# What operators of a device allocate, likewise.
$(BUILD)/test/test_device_suite $(BUILD)/test/test_device_faults: private LDFLAGS += \
    $(addprefix -Wl$(comma)--wrap=,malloc calloc realloc aligned_alloc mmap)
# A file is cut short at an allocation of its load.
$(BUILD)/test/test_cut_file: private LDFLAGS += $(addprefix -Wl$(comma)--wrap=,malloc calloc mmap)
# Reads fail, come short or wait where the extent reader takes them in.
$(BUILD)/test/test_layer_reader $(BUILD)/test/test_layer_reader_faults: private LDFLAGS += -Wl,--wrap=extent_finish_piece
# Its allocations fail one by one, libevent's too, which it is told of.
$(BUILD)/test/test_server: private LDFLAGS += $(addprefix -Wl$(comma)--wrap=,malloc calloc realloc strdup)

# Larger pages than this machine's, pretended: see there.
LARGE_PAGES := $(BUILD)/test/large_pages.so
$(LARGE_PAGES): test/pages/large_pages.c
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 $(WARN) -O1 -fPIC -shared $< -ldl -o $@
.PHONY: large-pages
large-pages: $(LARGE_PAGES)

.PHONY: unit unit-programs bench-programs
unit-programs: $(UNIT_BIN)
unit: $(UNIT_BIN)
	@failed=; for t in $(UNIT_BIN); do echo "== $$t"; $(EMULATOR) $$t || failed="$$failed $$t"; done; \
	 [ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }

# --- fuzzing: test/fuzz/fuzz_X.c with LLVMFuzzerTestOneInput(), seeds in test/fuzz/corpus/X ----------------------------
# The gateway's are fuzz_http and fuzz_gateway_*.
FUZZ_SRC := $(filter-out $(if $(filter no,$(WITH_HTTPD)),test/fuzz/fuzz_http.c test/fuzz/fuzz_gateway_%),$(filter test/fuzz/fuzz_%,$(call src,test/fuzz)))
FUZZ_NAMES := $(patsubst test/fuzz/fuzz_%.c,%,$(FUZZ_SRC))
REPLAY_BIN := $(patsubst %,$(BUILD)/fuzz-replay/fuzz_%,$(FUZZ_NAMES))
FUZZ_BIN := $(patsubst %,$(BUILD)/fuzz/fuzz_%,$(FUZZ_NAMES))
FUZZ_SECONDS ?= 10
FUZZ_SAN := fuzzer-no-link,address,undefined

$(BUILD)/fuzz-replay/fuzz_%: $(OBJ)/test/fuzz/fuzz_%.o $(OBJ)/test/fuzz/replay_main.o $(ALL_LIBS)
	$(call link,$(ALL_SYS))
# What parses: no devices, whose kernels take minutes with this instrumentation, and nothing above.
LIB_FUZZ := $(OBJ)/libfuzz.a
$(LIB_FUZZ): $(call objs,$(BASE_SRC) $(call src,$(call rooms,quant model text spec) tools/baselines) $(GATEWAY_SRC) $(CLIENT_SRC) $(PROTO_SRC)) $(OBJ)/gen/proto/coordgen.pb-c.o ; $(archive)
$(BUILD)/fuzz/fuzz_%: $(OBJ)/test/fuzz/fuzz_%.o $(LIB_FUZZ)
	@mkdir -p $(@D)
	$(call say,LINK  $@)
	$(Q)$(LINK) -fsanitize=fuzzer $(filter %.o %.a,$^) $(ALL_SYS) -o $@

.PHONY: fuzz fuzz-programs fuzz-replay fuzz-replay-programs
fuzz-replay-programs: $(REPLAY_BIN)
fuzz-replay: $(REPLAY_BIN)
	@set -e; for name in $(filter-out negative,$(FUZZ_NAMES)); do $(BUILD)/fuzz-replay/fuzz_$$name test/fuzz/corpus/$$name; done
# The programs, in the clang build that has the fuzzer's instrumentation.
fuzz-programs:
	+$(MAKE) CC=clang SAN=$(FUZZ_SAN) OPT='-O1 -g' fuzz-programs-here
.PHONY: fuzz-programs-here
fuzz-programs-here: $(FUZZ_BIN)
fuzz: fuzz-programs
	test/fuzz/run-fuzz $(FUZZ_SECONDS)

# --- the rest ----------------------------------------------------------------------------------------------------------
.PHONY: integration check check-long lint format bench demo
# T=test_stream or T=test_stream.Stream.test_sequence; BUILD_DIR of the programs under test.
integration: all
	COORDGEN_BUILD=$(abspath $(BUILD)) test/integration/run $(T)

lint:
	@test/lint.sh

format:
	@command -v clang-format >/dev/null || { echo 'clang-format is not installed: apt-get install clang-format'; exit 1; }
	clang-format -i $$(git ls-files '*.c' '*.h' '*.inc')

# The packages come first; what needs pkg-config is parsed by the makes that these scripts start.
check: install-deps install-aarch64
	@test/run-check
check-long: install-deps install-aarch64 install-musl
	@test/run-check --long
# Without them, the phase that needs them is skipped.
.PHONY: install-aarch64 install-musl
install-aarch64: install-deps
	@tools/install-deps --aarch64 || :
install-musl: install-deps
	@tools/install-deps --musl || :
demo:
	@tools/install-deps --build
	@tools/demo $(if $(MODEL),--model '$(MODEL)') $(if $(PROMPT),--prompt '$(PROMPT)')

# The machine's floors, kernels beside them, the fetched models, the service end to end, the layouts of weights; see
# test/README.md. MODELS=a,b; MODEL=FILE for the disk and the service; PLOTS=DIR: plots of the models; COORDGEN_DATA=DIR of
# requests: what drafts bring on them, hours for the larger models.
bench-programs: $(BENCH_BIN)
bench: all bench-programs
	@$(BUILD)/bin/coordgen-bench floor --model "$(or $(MODEL),$$(tools/fetch-model --quiet smollm2-135m))"
	@$(BUILD)/bin/bench-kernels
	@tools/bench-models --build $(BUILD) $(if $(MODELS),--models '$(MODELS)') $(if $(PLOTS),--plot-dir '$(PLOTS)')
	@tools/bench-service --build $(BUILD) $(if $(MODEL),--model '$(MODEL)')
	@$(BUILD)/bin/bench-layouts --csv
	$(if $(COORDGEN_DATA),@tools/bench-spec --build $(BUILD) --data '$(COORDGEN_DATA)' $(if $(MODELS),--models '$(MODELS)') \
		$(if $(PLOTS),--plot-dir '$(PLOTS)'))

# The ablation table of docs/lab/quantization.md, hours for the larger models; goes on after what is done. COORDGEN_DATA=DIR MODELS=a,b.
.PHONY: quant-table
quant-table: all
	@tools/quant-table --build $(BUILD) $(if $(MODELS),--models '$(MODELS)') $(if $(ROWS),--rows '$(ROWS)') $(if $(LIMIT),--limit $(LIMIT))
