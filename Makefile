# The front door. Everything is built in a hermetic Debian trixie root below build/ (rootfs/buildroot.sh).
#
#   make            build every program            make demo          boot a node and show it
#   make test       lint, unit, fuzz, VM, cluster  make demo-destroy  end it and leave nothing
#   make image      kernel, initramfs, squashfs    make bench         figures, peers beside them
#   make lint       clang-format and clang-tidy    make format        rewrite with clang-format
#
#   MIRROR=http://…/debian   the Debian mirror (default: the one that this host's apt uses)
#   SAN=address,undefined    build and test with these sanitizers (unit tests and fuzz replay)

SHELL    := /bin/bash
CHECKOUT := $(CURDIR)
ifneq ($(words $(CHECKOUT)),1)
$(error the path of the checkout has blanks in it, which make and ninja take for several: $(CHECKOUT))
endif
BUILD    := $(CHECKOUT)/build
ROOT     := $(BUILD)/root
IN_ROOT  := rootfs/enter.sh $(ROOT) $(CHECKOUT)
comma    := ,
OUT      := $(BUILD)/$(if $(SAN),san-$(subst $(comma),-,$(SAN)),out)
FUZZ     := $(BUILD)/fuzz
export MIRROR SECURITY_MIRROR

.PHONY: all root configure image test unit fuzz vm cluster bench lint format demo demo-destroy clean
all: configure
	@$(IN_ROOT) ninja -C $(OUT)

root:
	@rootfs/buildroot.sh $(ROOT) $(BUILD)/cache

configure: root
	@[ -e $(OUT)/build.ninja ] || $(IN_ROOT) cmake -S . -B $(OUT) -G Ninja -DSANITIZE=$(SAN) >/dev/null
	@[ -n "$(SAN)" ] || [ ! -e $(OUT)/compile_commands.json ] || \
	  sed 's#"command": "\([^ ]*ccache \)\?/usr/bin/clang++-19#"command": "clang++ --sysroot=$(ROOT)#' \
	    $(OUT)/compile_commands.json >compile_commands.json

image: all
	@$(IN_ROOT) rootfs/image.sh $(ROOT) $(OUT) $(BUILD)/image

test:
	@CHECKOUT=$(CHECKOUT) ROOT=$(ROOT) OUT=$(OUT) SAN=$(SAN) tests/run.sh

lint: configure
	@$(IN_ROOT) tests/lint.sh $(OUT)

format: root
	@$(IN_ROOT) bash -c "set -o pipefail; git -c safe.directory=* ls-files '*.cc' '*.h' | xargs clang-format-19 -i"

# One that was left by a host that went down is made anew.
demo: image
	@case "$$($(OUT)/talosctl cluster show --name demo 2>&1 >/dev/null)" in '') exit ;; \
	  *'does not run'*) $(OUT)/talosctl cluster destroy --name demo ;; esac; \
	  $(OUT)/talosctl cluster create --name demo
	@tests/demo.sh $(OUT)/talosctl

demo-destroy:
	@$(OUT)/talosctl cluster destroy --name demo

bench: image
	@tests/bench/run.sh $(CHECKOUT) $(OUT)

clean:
	rm -rf $(OUT) $(FUZZ) $(BUILD)/image
