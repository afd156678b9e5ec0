# The entry point. Everything is built in a hermetic Debian trixie root below build/ (rootfs/buildroot.sh).
#
#   make                   build everything; the man pages of talosctl are in build/out/man
#   make programs          only the programs: build/out/talosctl and those of the image
#   make check             after an edit: format, unit tests, lint of what changed
#   make one ROOM=networkd/plan FILTER='Bond*'   the tests of one folder, or those of them that the filter names
#   make test              before a merge
#   make sanitize          unit tests with sanitizers, all of lint
#   make soak              everything that takes long
#   make day               random faults and operations on nodes in containers for HOURS (docs/evidence/random-days.md)
#   make e2e               Kubernetes for real, compiled from its modules once (7 to 20 minutes), on nodes in containers
#   make conformance       some 120 of upstream's conformance tests on such nodes
#   make bench             figures, next to those of peers
#   make lint, format      clang-format and clang-tidy; run clang-format on all sources
#   make docs, man         write the generated pages; the man pages alone
#   make symbols           names of functions, for crash reports
#   make image             kernel, initramfs, squashfs, symbols; with PLATFORM= a disk for a provider's machines (docs/platforms.md)
#   make iso               a CD for machines without a system
#   make installer-image   for `talosctl upgrade`, ours or a customized one (docs/customizing.md)
#   make extension         a system extension of this checkout: NAME=iscsi-tools (docs/extensions.md)
#   make schematic         the images that a schematic describes: FILE=schematic.yaml, and PLATFORM= (docs/extensions.md)
#   make release           everything to give to others, in build/release: talosctl, all images, checksums, a signature (docs/releases.md)
#   make release-push      its installer images to a registry: REGISTRY=registry.example.com/site
#   make demo              a cluster, and what answers in it
#   make demo-destroy      remove it completely
#   make run SERVICE=networkd   one daemon alone, on a node in a container (docs/debugging.md)
#   make clean             remove what was built
#   make root, configure, compile_commands.json   the build root; the build folder; the same for editors
#
#   of every target
#     MIRROR=http://…/debian   the Debian mirror (default: the one that this host's apt uses)
#     SECURITY_MIRROR=http://…/debian-security   that of security updates (default: as well)
#   of image, iso and installer-image
#     FLAVOUR=metal            with drivers for machines, not only virtual ones (docs/image.md)
#     FIRMWARE='firmware-bnx2x intel-microcode'   Debian's packages of firmware files and microcode
#     EXTENSIONS='a.tar registry.example.com/b:v1'   system extensions: archives, folders or references (docs/extensions.md)
#     TALOS_VERSION=v1.10.0    the version of Talos that their manifests are to be compatible with (default: this release)
#     RELEASE=1                packed smaller, which takes longer; FLAVOUR=metal always is
#     ARCH=arm64               for machines of that architecture (docs/image.md); not of iso, but of all, programs and symbols
#   of iso
#     IMAGE_CACHE=folder       images for nodes without a registry (docs/image-cache.md)
#   of image
#     PLATFORM=aws             a disk for that provider's machines as well (docs/platforms.md)
#     ARGUMENTS='…'            further arguments of that disk's kernel
#   of installer-image
#     TREE=folder REMOVE=file KERNEL=package.deb   the changes of a customized one
#     VERSION=v0.100.0-site1   the version that it calls itself
#     NAME=registry.example.com/site/installer:v1   the reference inside of the archive
#   of release
#     REGISTRY=registry.example.com/site   where its installer images will be; of programs and images, too: the name that gen
#                              config and `talosctl images` print. Without it they print one that exists nowhere
#     KEY=release.key          the private key that signs (default: build/release.key, which is made once)
#     PLATFORMS='metal aws'    these disks alone, or none (default: all)
#     FLAVOURS='cloud metal'   these images alone (default: both)
#     ARCHES='amd64 arm64'     these architectures (default: amd64, and arm64 where build/out-arm64 is)
#   of release-push
#     REGISTRY=registry.example.com/site   where to; AUTHFILE=, CA= and INSECURE=1 are for it (docs/releases.md)
#   of demo
#     PROVISIONER=qemu         virtual machines; container is the default
#     KUBERNETES=no            the nodes alone
#     REGISTRIES='registry.k8s.io=URL ghcr.io=URL docker.io=URL'   mirrors instead of upstream's registries
#   of run
#     CONFIG=file.yaml         the machine config (default: a new control plane's)
#     DEBUG=gdb                or strace or perf: the daemon begins under it
#     WATCH=1                  builds again when a source changes, and replaces the daemon
#   of tests and figures
#     SAN=address,undefined    of all and test: with these sanitizers, the unit tests alone
#     HOURS=2                  of soak, for fuzzing and for the machines again and again; the power cuts come on top. Of day, its length
#     SEED=17 DAY=file MINUTES=10   of day: its seed; the plan to replay, or workloads; its length in place of HOURS
#     RELEASES='1.34.4 1.35.4' of e2e: the releases of Kubernetes, from the first to the second of which it upgrades
#     KUBE_FAULTS=all, DIAGNOSE=all, ROLLING_UPGRADES=all, MACHINE_UPGRADES=1, RENEWALS=20, USERS_LINES_ON=3+2   of e2e: longer tests
#                              (docs/evidence/kubernetes-runs.md, docs/upgrades.md)
#     KUBERNETES=1             of bench: the figures of Kubernetes too, for which it is compiled once
#     RUNS=5                   of bench: how often each is measured
#     ONLY='roundtrip config'  of bench: these sections of tests/bench/sections.list alone
#     SHORT=1                  of bench: the sections that a minute or two can measure
#     COMPARE=figures.json     of bench: compare with that run, and fail if a ratio to a peer is worse by more than WORSE=10 %
#     FIGURES=docs/evidence/figures.md   of bench: write this page, of a whole run on an idle machine
#     AGAIN=1                  of bench: measure the sections again that failed in the run before

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
FOLDER   := $(if $(SAN),san-$(subst $(comma),-,$(SAN)),out$(SUFFIX))
OUT      := $(BUILD)/$(FOLDER)
# In the build root the checkout is /src and its build folder /build (rootfs/enter.sh).
INNER    := /build/$(FOLDER)
HOURS    ?= 2
PROVISIONER ?= container
FLAVOUR  ?= cloud
IMAGE    := image$(if $(filter-out cloud,$(FLAVOUR)),-$(FLAVOUR))$(SUFFIX)
# Such a variable counts only on the command line: some shells export the name for something else.
given     = $(if $(filter command,$(origin $1)),$($1))
REGISTRY_GIVEN := $(call given,REGISTRY)
KEY_GIVEN      := $(call given,KEY)
FLAVOURS ?= cloud metal
ARCHES   ?= amd64$(if $(wildcard $(BUILD)/out-arm64/node), arm64)
export MIRROR SECURITY_MIRROR FLAVOUR FIRMWARE EXTENSIONS TALOS_VERSION ARCH
export CHECKOUT ROOT OUT INNER SAN HOURS   # for tests/run.sh

# Another architecture is compiled for, packed and emulated; targets that need a host of its kind are refused.
FOREIGN_TARGETS := all programs symbols image installer-image
FOREIGN_REFUSED := $(filter-out $(FOREIGN_TARGETS) root configure format clean,$(or $(MAKECMDGOALS),all))
ifneq ($(SUFFIX),)
ifneq ($(ARCH),arm64)
$(error ARCH is "$(ARCH)"; amd64 and arm64 are known)
endif
ifneq ($(SAN),)
$(error SAN= is for amd64 only: leave out ARCH)
endif
ifneq ($(FOREIGN_REFUSED),)
$(error make $(FOREIGN_REFUSED) is for amd64 only; ARCH=$(ARCH) is for $(FOREIGN_TARGETS))
endif
endif

.PHONY: all root configure compile_commands.json programs man symbols image run iso installer-image extension schematic check one test sanitize soak day e2e conformance bench lint docs format demo demo-destroy release release-push clean
# With all tests, but with sanitizers or for another architecture the unit tests alone.
all: configure
	@$(IN_ROOT) ninja -C $(INNER) all units $(if $(SAN)$(SUFFIX),,long-programs parts/tests/bench/all parts/tests/kubernetes/all)

root:
	@rootfs/buildroot.sh $(ROOT) $(BUILD)/cache

configure: root
	@[ -z "$(SUFFIX)" ] || $(IN_ROOT) rootfs/sysroot.sh $(ARCH) /build/root$(SUFFIX)
	@[ -e $(OUT)/build.ninja ] || $(IN_ROOT) cmake -S . -B $(INNER) -G Ninja -DSANITIZE=$(SAN) \
	  $(if $(SUFFIX),-DCMAKE_TOOLCHAIN_FILE=cmake/$(ARCH).cmake) >/dev/null
	@printf '%s\n' "$(REGISTRY_GIVEN)" | cmp -s - $(OUT)/registry || printf '%s\n' "$(REGISTRY_GIVEN)" >$(OUT)/registry
	@[ -n "$(SAN)$(SUFFIX)" ] || $(MAKE) --no-print-directory compile_commands.json

# For editors: how each file is compiled by itself (CMakePresets.json, `dev`), with what `make` has generated.
compile_commands.json:
	@$(IN_ROOT) bash -euc 'if [ -e /build/dev/build.ninja ]; then ninja -C /build/dev build.ninja; \
	  else cmake -S . -B /build/dev -G Ninja -DDEV=ON; fi >/dev/null'
	@sed -e 's#"command": "\([^ ]*ccache \)\?/usr/bin/clang++-19#"command": "clang++ --sysroot=$(ROOT)#' \
	  -e 's#/build/dev/gen#/build/out/gen#g' -e 's#\([ "I=]\)/src\b#\1$(CHECKOUT)#g' -e 's#\([ "I=]\)/build/#\1$(BUILD)/#g' \
	  $(BUILD)/dev/compile_commands.json >compile_commands.json

# The programs that users run and that the image is made of: no tests.
programs: configure
	@$(IN_ROOT) bash -euc 'ninja -C $(INNER) arrows $(if $(SUFFIX),,talosctl man-pages) config-keys disk-image extension-layers schematic $$(cut -d" " -f1 $(INNER)/programs.list)'

# One page of each command, from the table that help is made of.
man: configure
	@$(IN_ROOT) ninja -C $(INNER) man-pages

# Read by `talosctl crashes NAME --symbols build/symbols`. An image comes with those of its programs: when one of these
# crashes, the build folder may have programs of another build.
symbols: programs
	@$(IN_ROOT) rootfs/symbols.sh $(INNER) /build/symbols

image: symbols
	@[ -z "$(EXTENSIONS)" ] || rootfs/given-extensions.sh $(BUILD)/extensions $(EXTENSIONS)
	@$(IN_ROOT) env FLAVOUR=$(FLAVOUR) FIRMWARE="$(FIRMWARE)" EXTENSIONS=$(if $(EXTENSIONS),/build/extensions) TALOS_VERSION="$(TALOS_VERSION)" \
	  ARCH=$(ARCH) RELEASE="$(RELEASE)" rootfs/image.sh $(ROOT) $(INNER) /build/$(IMAGE)
	@[ -z "$(PLATFORM)" ] || $(IN_ROOT) env ARCH=$(ARCH) ARGUMENTS="$(ARGUMENTS)" rootfs/platform-image.sh /build/$(IMAGE) $(INNER)/disk-image "$(PLATFORM)"

# One daemon alone, on a node in a container: SERVICE=networkd [CONFIG=file.yaml] [DEBUG=gdb|strace|perf] [WATCH=1]
run: image
	@$(IN_ROOT) ninja -C $(INNER) $(SERVICE)$(if $(filter gdb,$(DEBUG)),-debug)
	@CONFIG="$(CONFIG)" DEBUG="$(DEBUG)" WATCH="$(WATCH)" tests/run-service.sh "$(SERVICE)" $(CHECKOUT) $(OUT)

iso: image
	@[ -z "$(IMAGE_CACHE)" ] || { rm -rf $(BUILD)/image-cache && cp -a "$(IMAGE_CACHE)" $(BUILD)/image-cache; }
	@$(IN_ROOT) rootfs/iso.sh /build/$(IMAGE) $(INNER)/disk-image $(if $(IMAGE_CACHE),/build/image-cache)

installer-image: symbols
	@NAME="$(call given,NAME)" rootfs/customize.sh $(ROOT) $(CHECKOUT) $(INNER)

extension: root
	@mkdir -p $(BUILD)/extension
	@$(IN_ROOT) rootfs/make-extension.sh "$(call given,NAME)" "/build/extension/$(call given,NAME).tar"

schematic: symbols
	@rootfs/schematic.sh $(ROOT) $(CHECKOUT) $(INNER) "$(call given,FILE)" "$(or $(PLATFORM),metal)"

# The key is read from outside of the build root, by a descriptor: no copy of it is made.
release:
	@for arch in $(ARCHES); do $(MAKE) --no-print-directory ARCH=$$arch programs || exit; done
	@[ -n "$(KEY_GIVEN)" ] || [ -e $(BUILD)/release.key ] || { \
	  $(IN_ROOT) sh -euc 'umask 077; openssl genpkey -algorithm ed25519 -out /build/release.key.new; mv /build/release.key.new /build/release.key'; \
	  echo "release: made build/release.key, which signs releases; keep it elsewhere, too, and use it for the next one as KEY="; }
	@$(IN_ROOT) env KEY=/dev/fd/3 ARCHES="$(ARCHES)" FLAVOURS="$(FLAVOURS)" PLATFORMS="$(PLATFORMS)" FIRMWARE="$(FIRMWARE)" \
	  rootfs/release.sh /build/release 3<"$(or $(KEY_GIVEN),$(BUILD)/release.key)"

release-push: root
	@$(IN_ROOT) env INSECURE="$(call given,INSECURE)" AUTHFILE=$(if $(call given,AUTHFILE),/dev/fd/4) CA=$(if $(call given,CA),/dev/fd/5) \
	  rootfs/release-push.sh /build/release "$(REGISTRY_GIVEN)" 4<"$(or $(call given,AUTHFILE),/dev/null)" 5<"$(or $(call given,CA),/dev/null)"

check test sanitize soak e2e conformance:
	@tests/run.sh $@

day: configure
	@SEED="$(call given,SEED)" DAY="$(call given,DAY)" MINUTES="$(call given,MINUTES)" tests/run.sh day

one: configure
	@$(IN_ROOT) tests/one.sh $(INNER) "$(call given,ROOM)" "$(call given,FILTER)"

lint: configure
	@$(IN_ROOT) ninja -C $(INNER) rpc version-data
	@$(IN_ROOT) tests/lint.sh $(INNER)

# The pages that are made of the schemas.
docs: configure
	@$(IN_ROOT) ninja -C $(INNER) common-config-test common-wire-test tests-contracts-test client-test
	@$(IN_ROOT) env UPDATE_DOCS=1 $(INNER)/common/config/common-config-test --gtest_brief=1 --gtest_filter='ConfigReference.*:ConfigKeys.*'
	@$(IN_ROOT) env UPDATE_DOCS=1 $(INNER)/common/wire/common-wire-test --gtest_brief=1 --gtest_filter='RolesReference.*'
	@$(IN_ROOT) env UPDATE_DOCS=1 $(INNER)/parts/tests/contracts/tests-contracts-test --gtest_brief=1 --gtest_filter='SocketsReference.*'
	@$(IN_ROOT) env UPDATE_DOCS=1 $(INNER)/parts/tests/client/client-test --gtest_brief=1 --gtest_filter='FlagsPage.*'

format: root
	@$(IN_ROOT) bash -c "git -c safe.directory=* ls-files --cached --others --exclude-standard '*.cc' '*.h' | xargs ls 2>/dev/null | xargs clang-format-19 -i"

# A cluster that is there keeps the nodes that it has.
demo: root
	@PROVISIONER=$(PROVISIONER) MAKE=$(MAKE) tests/demo.sh up $(CHECKOUT) $(OUT)/talosctl

demo-destroy:
	@tests/demo.sh down $(CHECKOUT) $(OUT)/talosctl

bench: image all
	@tests/bench/run.sh $(CHECKOUT) $(OUT)

clean:
	rm -rf $(OUT) $(addprefix $(BUILD)/,fuzz symbols image image-* custom custom-* kernel kernel-*)
