# The commands a newcomer needs: `make demo`, `make install` and `make test`.
.PHONY: demo install uninstall tables notebooks book reference test test-full test-long test-tables test-book test-kernel test-spark kernel-trees \
  example peers fuzz attack speed instructions bench bench-schedulers lateness punctuality mutants deny advisories samples digests digests-aarch64 browser accessibility semver dist test-dist

# The main job on shipped samples, and its report. Needs a Rust toolchain and nothing else.
demo:
	mkdir -p target
	cargo run --profile demo --quiet --package iocast -- compare traces/samples/mail.parquet \
	  --schedulers fifo,sstf,cscan,deadline,cats --drive cheetah-15k4 --pacing closed --report target/demo.html --force

# The program iocast-tables, which `iocast report --table` runs: a quarter of an hour on two cores, since it compiles
# polars. A workspace of its own, so that no other build has to.
TABLES := --release --locked --manifest-path tables/Cargo.toml --target-dir target
tables:
	cargo build $(TABLES)

# The program, with iocast-tables if `make tables` has built it, its manual pages, the completions of bash, zsh and fish, the documentation and the sample traces below
# DESTDIR and PREFIX. IOCAST names a binary that is built already; without it the release binary is built.
PREFIX ?= /usr/local
DESTDIR ?=
IOCAST ?= target/release/iocast
INTO = $(DESTDIR)$(PREFIX)
BASH_COMPLETION = $(INTO)/share/bash-completion/completions/iocast
ZSH_COMPLETION = $(INTO)/share/zsh/site-functions/_iocast
FISH_COMPLETION = $(INTO)/share/fish/vendor_completions.d/iocast.fish
MAN = $(INTO)/share/man/man1
DOC = $(INTO)/share/doc/iocast
install:
	$(if $(filter target/release/iocast,$(IOCAST)),cargo build --release --locked --quiet --package iocast)
	install -d $(INTO)/bin $(INTO)/include $(MAN) $(dir $(BASH_COMPLETION) $(ZSH_COMPLETION) $(FISH_COMPLETION)) $(DOC)/traces/samples
	install -m 755 $(IOCAST) $(INTO)/bin/iocast
	if [ -x $(dir $(IOCAST))iocast-tables ]; then install -m 755 $(dir $(IOCAST))iocast-tables $(INTO)/bin; fi
	$(IOCAST) man --output $(MAN) >/dev/null
	$(IOCAST) completions bash >$(BASH_COMPLETION)
	$(IOCAST) completions zsh >$(ZSH_COMPLETION)
	$(IOCAST) completions fish >$(FISH_COMPLETION)
	install -m 644 schedulers/include/iocast_scheduler.h $(INTO)/include
	install -m 644 README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT $(DOC)
	cp -RL docs $(DOC)
	cp -L traces/samples/*.parquet traces/samples/README.md $(DOC)/traces/samples

uninstall:
	rm -f $(INTO)/bin/iocast $(INTO)/bin/iocast-tables $(INTO)/include/iocast_scheduler.h $(MAN)/iocast.1 $(MAN)/iocast-*.1
	rm -f $(BASH_COMPLETION) $(ZSH_COMPLETION) $(FISH_COMPLETION)
	rm -rf $(DOC)

# The documentation as a book: target/book/index.html. A link that leaves docs/ leads to the repository.
BOOK := target/book
MDBOOK_VERSION := 0.5.2
MDBOOK := target/mdbook-$(MDBOOK_VERSION)/bin/mdbook
OUTSIDE := $(shell sed -n 's/^repository = "\(.*\)"/\1/p' Cargo.toml)/blob/HEAD/
book: $(MDBOOK)
	rm -rf $(BOOK)
	$(MDBOOK) build docs
	sed -i -e 's,href="\.\./,href="$(OUTSIDE),g' $(BOOK)/*.html
	sed -i -e 's,href="\.\./\.\./,href="$(OUTSIDE),g' $(BOOK)/*/*.html
	sed -i -e 's,\(href="$(OUTSIDE)[^"#]*\)\.html,\1.md,g' $(BOOK)/*.html $(BOOK)/*/*.html

$(MDBOOK):
	cargo install mdbook --version $(MDBOOK_VERSION) --locked --no-default-features --features search \
	  --root $(abspath target/mdbook-$(MDBOOK_VERSION))

# The pages of docs/reference, which the program writes. Tests compare them.
reference:
	IOCAST_UPDATE_DOCS=1 $(TEST) --test reference --test programs -- page the_documentation_has

# Everything in a quarter of an hour on two cores. Installs the Debian packages it needs.
test: tools lint unit live doc scenarios example

# The tests that take minutes each, in an optimised build. A short test of the same rule is in `make test`. Those of
# AS_ROOT install the program into an empty folder and run every subcommand once, and boot the lab's VMs. CI runs
# test-long; polars, which test-tables builds, takes a quarter of an hour.
AS_ROOT := cargo test --profile long --workspace --test installed --test lab --test ublk
test-full: test-long test-tables test-book
test-long: tools browser kernel-trees
	cargo test --profile long --workspace --test 'long_*' --test papers
	$(AS_ROOT) --no-run
	mountpoint -q /sys/kernel/tracing || $(SUDO) mount -t tracefs nodev /sys/kernel/tracing
	$(SUDO) env "PATH=$$PATH" "HOME=$$HOME" $(AS_ROOT)

# The program iocast-tables, and the examples of docs/notebooks.md.
test-tables: tables notebooks
	cargo fmt --manifest-path tables/Cargo.toml -- --check
	cargo test $(TABLES)
	cargo test --profile long --workspace --test notebooks

# Every link of the book.
test-book: book
	$(TEST) --test book

# The Python libraries of docs/notebooks.md, in an environment of their own.
notebooks: target/notebooks/installed
target/notebooks/installed: tables/notebooks.txt
	python3 -m venv target/notebooks
	target/notebooks/bin/pip install --quiet --requirement tables/notebooks.txt
	touch $@

# A sweep on Apache Spark: a cluster on 127.0.0.1 of one master and two workers, of which one is killed. Needs Java 17 or
# newer; its Python packages get an environment of their own.
test-spark: target/spark/installed
	$(call packages,java:default-jre-headless)
	IOCAST_SPARK_PYTHON=$(abspath target/spark/bin/python) $(TEST) --test spark -- --nocapture
target/spark/installed: cli/tests/spark.txt
	python3 -m venv target/spark
	target/spark/bin/pip install --quiet --requirement cli/tests/spark.txt
	touch $@

# Reports are opened in Debian's Chromium.
browser:
	@command -v chromium >/dev/null || { echo "installing chromium with apt-get"; \
	  $(SUDO) apt-get update -qq && $(SUDO) apt-get install -y -qq --no-install-recommends chromium; }

# Reports under the rules of axe-core, which npm fetches.
accessibility: browser
	mkdir -p target/axe && cd target/axe && npm pack --silent axe-core@4 && tar -xzf axe-core-*.tgz package/axe.min.js
	IOCAST_AXE=$(CURDIR)/target/axe/package/axe.min.js $(TEST) --test axe -- --nocapture

# The interfaces of the packages against those of the last release.
semver:
	command -v cargo-semver-checks >/dev/null || cargo install cargo-semver-checks --locked
	cargo semver-checks --workspace --exclude iocast --baseline-rev $$(git describe --tags --abbrev=0)

# Each package as it would be published. What is packaged is not built again.
package:
	cargo package --workspace --no-verify --quiet --allow-dirty

# The Debian package and the static archive, in target/dist: the tree that `make install` lays. Needs rustup.
CARGO_DEB := 3.8.0
DIST_PACKAGES := musl-gcc:musl-tools dpkg-shlibdeps:dpkg-dev
dist:
	$(call packages,$(DIST_PACKAGES))
	[ "$$(cargo deb --version 2>/dev/null)" = "cargo-deb $(CARGO_DEB)" ] || cargo install cargo-deb --locked --version $(CARGO_DEB)
	rustup target add $$(uname -m)-unknown-linux-musl
	dist/build.sh

# Both of them in a bare Debian root, which it makes below target and removes: every subcommand runs there. Needs root.
TEST_DIST_PACKAGES := mmdebstrap:mmdebstrap lintian:lintian man:man-db readelf:binutils
test-dist: dist tools kernel-trees
	$(call packages,$(TEST_DIST_PACKAGES))
	cargo test --profile long --workspace --test installed --no-run
	mountpoint -q /sys/kernel/tracing || $(SUDO) mount -t tracefs nodev /sys/kernel/tracing
	$(SUDO) env "PATH=$$PATH" "HOME=$$HOME" dist/test.sh

# Our schedulers of Linux against the kernel's own code. Downloads two of Debian's kernel sources, 280 MB, and unpacks
# what is needed of them into target/kernel. KERNEL_SEQUENCES=2100 makes some ten million decisions of each, from the
# seed KERNEL_SEED on.
KERNELS := 6.1 6.12
KERNEL_SEQUENCES ?= 200
KERNEL_SEED ?= 1
test-kernel: tools kernel-trees
	IOCAST_KERNEL_SEQUENCES=$(KERNEL_SEQUENCES) IOCAST_KERNEL_SEED=$(KERNEL_SEED) \
	  cargo test --profile long --workspace --test kernel -- --nocapture

kernel-trees: $(KERNELS:%=target/kernel/linux-source-%/Makefile)
target/kernel/linux-source-%/Makefile:
	rm -rf $(@D).new && mkdir -p $(@D).new
	cd $(@D).new && { apt-get download linux-source-$* || { $(SUDO) apt-get update -qq && apt-get download linux-source-$*; }; }
	cd $(@D).new && dpkg-deb --fsys-tarfile linux-source-$*_*.deb | \
	  tar -xO ./usr/src/linux-source-$*.tar.xz | tar -xJ --strip-components 1 $(addprefix linux-source-$*/, \
	  Makefile block include/linux include/uapi/linux lib/rbtree.c) && rm linux-source-$*_*.deb
	rm -rf $(@D) && mv $(@D).new $(@D)

# All targets are built from the whole workspace, so that they share one build. A plain `cargo test` leaves out the
# targets that Cargo.toml marks `test = false`: `live_*`, `long_*`, `axe`, `installed`, `kernel`, `lab`, `papers` and
# `shared`.
# They are selected by name.
TEST := cargo test --workspace

# Programs that our results and files are checked against, and their Debian packages. Some are for
# administrators and lie where others do not look.
PACKAGES := blkparse:blktrace btrecord:blktrace btreplay:blktrace fio:fio blkreplay:blkreplay \
  dumpcap:wireshark-common editcap:wireshark-common tshark:tshark ip:iproute2 unshare:util-linux setpriv:util-linux \
  mkfs.ext4:e2fsprogs losetup:mount nbdinfo:libnbd-bin nbdfuse:libnbd-bin nbd-client:nbd-client tgtd:tgt \
  qemu-system-x86_64:qemu-system-x86 qemu-io:qemu-utils strace:strace valgrind:valgrind cc:gcc
export PATH := $(PATH):/usr/sbin
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
tools:
	$(call packages,$(PACKAGES))

# Installs the packages of the pairs PROGRAM:PACKAGE whose programs are missing.
define packages
	@missing=""; for pair in $(1); do \
	  command -v "$${pair%%:*}" >/dev/null || missing="$$missing $${pair##*:}"; done; \
	if [ -n "$$missing" ]; then echo "installing$$missing with apt-get"; \
	  $(SUDO) apt-get update -qq && $(SUDO) apt-get install -y -qq --no-install-recommends $$missing; fi
endef

lint:
	cargo fmt --all -- --check
	cargo clippy --workspace --all-targets --test '*' -- -D warnings

unit:
	$(TEST)

# What needs root, network namespaces, devices, virtual machines, or other programs that run beside it. Built by
# whoever calls it, run as root.
LIVE := $(TEST) --test 'live_*'
live: tools
	$(LIVE) --no-run
	mountpoint -q /sys/kernel/tracing || $(SUDO) mount -t tracefs nodev /sys/kernel/tracing
	$(SUDO) env "PATH=$$PATH" "HOME=$$HOME" $(LIVE)

doc:
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet

# Scheduler comparisons whose figures must come out exactly.
scenarios:
	$(TEST) --bench scenarios

# The project that a user copies, in a workspace of its own: its tests and its scenario. It takes what it can of our build.
AS_WE_BUILD := --target-dir target --config profile.dev.opt-level=1 --config profile.dev.debug=false \
  --config profile.dev.incremental=false --config 'profile.dev.lto="off"'
example:
	cargo test --locked --manifest-path examples/my-scheduler/Cargo.toml $(AS_WE_BUILD) --lib --bench compare

# Tests over data that is not shipped: IOCAST_SHARED_DATA, or ../shared/data.
IOCAST_SHARED_DATA ?= $(abspath ../shared/data)
test-shared: tools
	@test -d "$(IOCAST_SHARED_DATA)" || { echo "$(IOCAST_SHARED_DATA) does not exist; set IOCAST_SHARED_DATA" >&2; exit 1; }
	IOCAST_SHARED_DATA="$(IOCAST_SHARED_DATA)" $(TEST) --test shared

# Proves that a refactoring changed no result: compares the outputs of some 380 commands with benches/digests.txt in two
# minutes of CPU. ARGS=--update rewrites that file; benches/examples/digests/main.rs has more options. IOCAST is the binary.
ARGS ?=
digests:
	cargo build --profile long --quiet --workspace --bin iocast --example digests
	target/long/examples/digests $(if $(filter target/release/iocast,$(IOCAST)),target/long/iocast,$(IOCAST)) $(ARGS)

# The same digests on another processor, in ten minutes: all but the rows of `validate` and `reproduce`. Needs rustup, and
# Debian's gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and qemu-user.
AARCH64 := aarch64-linux-gnu-gcc
digests-aarch64:
	rustup target add aarch64-unknown-linux-gnu
	CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$(AARCH64) CC_aarch64_unknown_linux_gnu=$(AARCH64) \
	  cargo build --profile long --quiet --package iocast --target aarch64-unknown-linux-gnu
	cargo build --profile long --quiet --package iocast-bench --example digests
	set -e; for rows in list stat convert compare predict place; do \
	  target/long/examples/digests benches/examples/digests/aarch64.sh --only "$$rows "; done

# The same generated capture through blkparse, btt, fio-btrace2fio and us, side by side. EVENTS=10000000
# takes about a minute and 2.5 GB of temporary files.
EVENTS ?= 2000000
peers: tools
	cargo build --release --quiet --package iocast
	cargo run --release --quiet --package iocast-bench --example peers -- target/release/iocast $(EVENTS)

# Damaged inputs of all that is read: traces, plans, profiles, settings, results, packets, NBD clients. SECONDS of CPU for
# each target; SEED is the time otherwise, and printed; TARGET is one of them. With the checks of a debug build.
SECONDS ?= 600
SEED ?=
TARGET ?=
fuzz:
	IOCAST_FUZZ_CPU_SECONDS=$(SECONDS) IOCAST_FUZZ_SEED=$(SEED) IOCAST_FUZZ_TARGET=$(TARGET) $(TEST) --test fuzz -- --nocapture

# What an attack on the suite once tried, as one: damaged inputs for 20 CPU seconds of each target, settings and sizes
# out of bounds, full disks, hostile names, captures to be scrubbed, recorders and servers that are killed, a fault of
# every system call, hostile clients. About half an hour.
attack:
	$(MAKE) fuzz SECONDS=20
	$(TEST) --test bounds --test full_disk --test hostile_names --test iscsi
	$(MAKE) live
	cargo test --profile long --workspace --test long_attack --test long_faults

# Jobs of benches/speed: their CPU seconds, wall times and memory at three sizes, beside their peers, in some minutes.
# Writes benches/speed/results and docs/validation/speed.md. ONLY is a part of the jobs' names.
ONLY ?=
SPEED = target/$(1)/examples/jobs target/$(1)/iocast $(if $(ONLY),--only $(ONLY))
speed: tools
	cargo build --release --quiet --package iocast
	cargo build --release --quiet --package iocast-bench --example jobs
	$(call SPEED,release) --date $$(date +%F)

# Instructions of the same jobs at a small size, held against benches/speed/instructions.toml. WHY stores new ones.
# Built as `make test-long` does, so that CI need not build twice.
WHY ?=
instructions: tools
	cargo build --profile long --quiet --workspace --bin iocast --example jobs
	$(call SPEED,long) --instructions $(if $(WHY),--why '$(WHY)')

bench:
	cargo bench --package iocast-bench --bench engine --bench forecasts

# Decisions per CPU second of every scheduler with 1 to 1024 requests waiting, and the growth in N; with
# criterion's own figures: cargo bench --package iocast-bench --bench schedulers.
bench-schedulers:
	cargo bench --package iocast-bench --bench schedulers -- --table

# How late a served drive's replies are, and how many it serves, LATE_SECONDS for each of eighteen loads. Fails over NBD
# above 0.5 ms at p99 or 100 us at the median, or below 50,000 per second; over vhost-user above 0.2 ms or 50 us, or below
# 150,000. On a quiet machine.
LATE_SECONDS ?= 10
lateness: tools
	cargo build --release --quiet --package iocast
	cargo run --release --quiet --package iocast-bench --example lateness -- target/release/iocast $(LATE_SECONDS)

# How close iocast, fio and btreplay come to a trace's times, side by side, with 10,000 reads per second for
# PUNCTUALITY_SECONDS among them. Needs root; on a quiet machine.
PUNCTUALITY_SECONDS ?= 60
punctuality: tools
	cargo build --release --quiet --package iocast
	mountpoint -q /sys/kernel/tracing || $(SUDO) mount -t tracefs nodev /sys/kernel/tracing
	cargo build --release --quiet --package iocast-bench --example punctuality
	$(SUDO) target/release/examples/punctuality target/release/iocast $(PUNCTUALITY_SECONDS)

# Plants the bugs of schedulers/mutants.txt one at a time in a copy of the workspace; at least 95 % must
# turn a test red. ONLY=sfq tries those whose file or test has that in its name.
ONLY ?=
mutants:
	cargo run --quiet --package iocast-schedulers --example mutants -- $(ONLY)

# Licences, sources and duplicates of dependencies (deny.toml). cargo-deny without optimisation compiles in a third of the
# time.
deny:
	command -v cargo-deny >/dev/null || cargo install cargo-deny --locked --debug
	cargo deny --log-level error check --hide-inclusion-graph licenses bans sources
	cargo deny --log-level error --manifest-path tables/Cargo.toml --config tables/deny.toml \
	  check --hide-inclusion-graph licenses bans sources

# Known faults of dependencies. Fetches RustSec's database.
advisories:
	command -v cargo-deny >/dev/null || cargo install cargo-deny --locked --debug
	cargo deny --log-level error check --hide-inclusion-graph advisories
	cargo deny --log-level error --manifest-path tables/Cargo.toml --config tables/deny.toml \
	  check --hide-inclusion-graph advisories
