# The entry point. Everything is built in a hermetic Debian trixie root below build/ (rootfs/buildroot.sh).
#
#   make            build everything               make demo          a cluster, and what answers in it
#   make check      after an edit: format, unit    make demo-destroy  remove it completely
#                   tests, lint of what changed    make bench         figures, next to those of peers
#   make test       before a merge                 make soak          everything that takes long
#   make sanitize   unit tests with sanitizers, all of lint
#   make e2e        Kubernetes for real, compiled from its modules once (7 to 20 minutes), on nodes in containers
#   make conformance  some 120 of upstream's conformance tests on such nodes
#   make image      kernel, initramfs, squashfs    make iso           a CD for machines without a system
#   make lint       clang-format and clang-tidy    make format        run clang-format on all sources
#   make clean      remove what was built          make docs          write the generated pages
#   make man        man pages of talosctl         make symbols       names of functions, for crash reports
#   make installer-image   what `talosctl upgrade` takes; customized with TREE=, REMOVE=, KERNEL= (docs/customizing.md)
#
#   MIRROR=http://…/debian   the Debian mirror (default: the one that this host's apt uses)
#   FLAVOUR=metal            of image, iso and installer-image: with drivers for machines, not only virtual ones (docs/image.md)
#   FIRMWARE='firmware-bnx2x intel-microcode'   of the same: Debian's packages of firmware files and microcode
#   RELEASE=1                of the same: packed smaller, which takes longer; FLAVOUR=metal always is
#   ARCH=arm64               of image and installer-image: for machines of that architecture (docs/image.md)
#   PLATFORM=aws             of image: a disk for that provider's machines as well (docs/platforms.md); ARGUMENTS='…' for its kernel
#   SAN=address,undefined    build and test with these sanitizers (unit tests only)
#   HOURS=2                  of `make soak`, for fuzzing and for the machines again and again; the power cuts come on top
#   KUBERNETES=1             of `make bench`: the figures of Kubernetes too, for which it is compiled once
#   PROVISIONER=container    of `make demo`, when it creates the cluster: container or qemu
#   KUBERNETES=no            of `make demo`: the nodes alone
#   REGISTRIES='registry.k8s.io=URL ghcr.io=URL docker.io=URL'   of `make demo`: mirrors instead of upstream's registries

SHELL    := /bin/bash
CHECKOUT := $(CURDIR)
ifneq ($(words $(CHECKOUT)),1)
$(error the path of the checkout must not contain blanks (make and ninja cannot handle them): $(CHECKOUT))
endif
BUILD    := $(CHECKOUT)/build
ROOT     := $(BUILD)/root
IN_ROOT  := rootfs/enter.sh $(ROOT) $(CHECKOUT)
comma    := ,
ARCH     ?= amd64
SUFFIX   := $(if $(filter-out amd64,$(ARCH)),-$(ARCH))
NAME     := $(if $(SAN),san-$(subst $(comma),-,$(SAN)),out$(SUFFIX))
OUT      := $(BUILD)/$(NAME)
# In the build root the checkout is /src and its build folder /build (rootfs/enter.sh).
INNER    := /build/$(NAME)
HOURS    ?= 2
PROVISIONER ?= container
FLAVOUR  ?= cloud
IMAGE    := image$(if $(filter-out cloud,$(FLAVOUR)),-$(FLAVOUR))$(SUFFIX)
export MIRROR SECURITY_MIRROR FLAVOUR FIRMWARE ARCH
export CHECKOUT ROOT OUT INNER SAN HOURS   # for tests/run.sh

# Another architecture is compiled for, packed and emulated; what needs a host of its kind is refused.
FOREIGN_TARGETS := root configure all programs symbols image installer-image format clean
ifneq ($(SUFFIX),)
ifneq ($(ARCH),arm64)
$(error ARCH is "$(ARCH)"; amd64 and arm64 are known)
endif
ifneq ($(SAN),)
$(error SAN= is for amd64 only: leave out ARCH)
endif
ifneq ($(filter-out $(FOREIGN_TARGETS),$(or $(MAKECMDGOALS),all)),)
$(error ARCH=$(ARCH) is for $(wordlist 3,6,$(FOREIGN_TARGETS)); make $(MAKECMDGOALS) is for amd64 only)
endif
endif

.PHONY: all root configure programs man symbols image run iso installer-image check test sanitize soak e2e conformance bench lint docs format demo demo-destroy clean
# With all tests, but with sanitizers or for another architecture the unit tests alone.
all: configure
	@$(IN_ROOT) ninja -C $(INNER) all units $(if $(SAN)$(SUFFIX),,long-programs parts/tests/bench/all parts/tests/kubernetes/all)

root:
	@rootfs/buildroot.sh $(ROOT) $(BUILD)/cache

configure: root
	@[ -z "$(SUFFIX)" ] || $(IN_ROOT) rootfs/sysroot.sh $(ARCH) /build/root$(SUFFIX)
	@[ -e $(OUT)/build.ninja ] || $(IN_ROOT) cmake -S . -B $(INNER) -G Ninja -DSANITIZE=$(SAN) \
	  $(if $(SUFFIX),-DCMAKE_TOOLCHAIN_FILE=cmake/$(ARCH).cmake) >/dev/null
	@[ -n "$(SAN)$(SUFFIX)" ] || [ ! -e $(OUT)/compile_commands.json ] || \
	  sed -e 's#"command": "\([^ ]*ccache \)\?/usr/bin/clang++-19#"command": "clang++ --sysroot=$(ROOT)#' \
	    -e 's#\([ "I=]\)/src\b#\1$(CHECKOUT)#g' -e 's#\([ "I=]\)/build/#\1$(BUILD)/#g' \
	    $(OUT)/compile_commands.json >compile_commands.json

# What users run and what the image is made of: no tests.
programs: configure
	@$(IN_ROOT) bash -euc 'ninja -C $(INNER) arrows $(if $(SUFFIX),,talosctl) config-keys disk-image $$(cut -d" " -f1 $(INNER)/programs.list)'

# One page of each command, from the table that help is made of.
man: programs
	@$(IN_ROOT) $(INNER)/talosctl docs $(INNER)/man/man1 >/dev/null

# What `talosctl crashes NAME --symbols build/symbols` reads.
symbols: programs
	@$(IN_ROOT) rootfs/symbols.sh $(INNER) /build/symbols

image: programs
	@$(IN_ROOT) env FLAVOUR=$(FLAVOUR) FIRMWARE="$(FIRMWARE)" ARCH=$(ARCH) RELEASE="$(RELEASE)" rootfs/image.sh $(ROOT) $(INNER) /build/$(IMAGE)
	@[ -z "$(PLATFORM)" ] || $(IN_ROOT) env ARCH=$(ARCH) ARGUMENTS="$(ARGUMENTS)" rootfs/platform-image.sh /build/$(IMAGE) $(INNER)/disk-image "$(PLATFORM)"

# One daemon alone, on a node in a container: SERVICE=networkd [CONFIG=file.yaml] [DEBUG=gdb|strace|perf] [WATCH=1]
run: image
	@$(IN_ROOT) ninja -C $(INNER) $(SERVICE)$(if $(filter gdb,$(DEBUG)),-debug)
	@CONFIG="$(CONFIG)" DEBUG="$(DEBUG)" WATCH="$(WATCH)" tests/run-service.sh "$(SERVICE)" $(CHECKOUT) $(OUT)

iso: image
	@$(IN_ROOT) rootfs/iso.sh /build/$(IMAGE)

installer-image: programs
	@rootfs/customize.sh $(ROOT) $(CHECKOUT) $(INNER)

check test sanitize soak e2e conformance:
	@tests/run.sh $@

lint: configure
	@$(IN_ROOT) ninja -C $(INNER) rpc version-data
	@$(IN_ROOT) tests/lint.sh $(INNER)

# The pages that are made of the schemas.
docs: configure
	@$(IN_ROOT) ninja -C $(INNER) common-config-test common-wire-test tests-contracts-test
	@$(IN_ROOT) env UPDATE_DOCS=1 $(INNER)/common/config/common-config-test --gtest_brief=1 --gtest_filter='ConfigReference.*:ConfigKeys.*'
	@$(IN_ROOT) env UPDATE_DOCS=1 $(INNER)/common/wire/common-wire-test --gtest_brief=1 --gtest_filter='RolesReference.*'
	@$(IN_ROOT) env UPDATE_DOCS=1 $(INNER)/parts/tests/contracts/tests-contracts-test --gtest_brief=1 --gtest_filter='SocketsReference.*'

format: root
	@$(IN_ROOT) bash -c "git -c safe.directory=* ls-files --cached --others --exclude-standard '*.cc' '*.h' | xargs ls 2>/dev/null | xargs clang-format-19 -i"

# A cluster that is there keeps the nodes that it has.
demo: image
	@PROVISIONER=$(PROVISIONER) tests/demo.sh up $(CHECKOUT) $(OUT)/talosctl

demo-destroy:
	@tests/demo.sh down $(CHECKOUT) $(OUT)/talosctl

bench: image all
	@tests/bench/run.sh $(CHECKOUT) $(OUT)

clean:
	rm -rf $(OUT) $(BUILD)/fuzz $(BUILD)/symbols $(BUILD)/image $(BUILD)/image-*
