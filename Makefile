# The entry point. Everything is built in a hermetic Debian trixie root below build/ (rootfs/buildroot.sh).
#
#   make            build every program            make demo          boot a node and show it
#   make test       lint, unit, fuzz, VM, cluster  make demo-destroy  remove it completely
#   make image      kernel, initramfs, squashfs    make bench         figures, next to those of peers
#   make lint       clang-format and clang-tidy    make format        run clang-format on all sources
#
#   MIRROR=http://…/debian   the Debian mirror (default: the one that this host's apt uses)
#   SAN=address,undefined    build and test with these sanitizers (unit tests and fuzz replay)

SHELL    := /bin/bash
CHECKOUT := $(CURDIR)
ifneq ($(words $(CHECKOUT)),1)
$(error the path of the checkout must not contain blanks (make and ninja cannot handle them): $(CHECKOUT))
endif
BUILD    := $(CHECKOUT)/build
ROOT     := $(BUILD)/root
IN_ROOT  := rootfs/enter.sh $(ROOT) $(CHECKOUT)
comma    := ,
NAME     := $(if $(SAN),san-$(subst $(comma),-,$(SAN)),out)
OUT      := $(BUILD)/$(NAME)
# In the build root the checkout is /src and its build folder /build (rootfs/enter.sh).
INNER    := /build/$(NAME)
export MIRROR SECURITY_MIRROR

.PHONY: all root configure image test unit fuzz vm cluster bench lint format demo demo-destroy clean
all: configure
	@$(IN_ROOT) ninja -C $(INNER)

root:
	@rootfs/buildroot.sh $(ROOT) $(BUILD)/cache

configure: root
	@[ -e $(OUT)/build.ninja ] || $(IN_ROOT) cmake -S . -B $(INNER) -G Ninja -DSANITIZE=$(SAN) >/dev/null
	@[ -n "$(SAN)" ] || [ ! -e $(OUT)/compile_commands.json ] || \
	  sed -e 's#"command": "\([^ ]*ccache \)\?/usr/bin/clang++-19#"command": "clang++ --sysroot=$(ROOT)#' \
    -e 's#\([ "I=]\)/src\b#\1$(CHECKOUT)#g' -e 's#\([ "I=]\)/build/#\1$(BUILD)/#g' \
	    $(OUT)/compile_commands.json >compile_commands.json

image: all
	@$(IN_ROOT) rootfs/image.sh $(ROOT) $(INNER) /build/image

test:
	@CHECKOUT=$(CHECKOUT) ROOT=$(ROOT) OUT=$(OUT) INNER=$(INNER) SAN=$(SAN) tests/run.sh

lint: configure
	@$(IN_ROOT) tests/lint.sh $(INNER)

format: root
	@$(IN_ROOT) bash -c "set -o pipefail; git -c safe.directory=* ls-files '*.cc' '*.h' | xargs clang-format-19 -i"

# A cluster that is not running (the host was rebooted) is created again.
demo: image
	@case "$$($(OUT)/talosctl cluster show --name demo 2>&1 >/dev/null)" in '') exit ;; \
	  *'is not running'*) $(OUT)/talosctl cluster destroy --name demo ;; esac; \
	  $(OUT)/talosctl cluster create --name demo
	@tests/demo.sh $(OUT)/talosctl

demo-destroy:
	@$(OUT)/talosctl cluster destroy --name demo

bench: image
	@tests/bench/run.sh $(CHECKOUT) $(OUT)

clean:
	rm -rf $(OUT) $(BUILD)/fuzz $(BUILD)/image
