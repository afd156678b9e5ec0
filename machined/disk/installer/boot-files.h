// The files of the boot loader: its configuration, the entries of the two slots, and the choice of
// the slot to start. Pure.
//
// BOOT has
//   grub/grub.cfg    the same on every node
//   grub/grubenv     the chosen slot (common/disk/boot-slots.h)
//   A/, B/           vmlinuz, initramfs and boot.cfg, which loads them with the arguments of this
//                    system; so a system keeps its arguments whatever is installed in the other
//                    slot
#pragma once

#include <kj/array.h>
#include <kj/string.h>
#include <kj/vector.h>

#include "common/base/version.h"
#include "common/disk/boot-slots.h"

namespace talos::install {

// A system in a slot that has all of its files.
struct WholeSystem {
  Slot slot;
  kj::String version;
};
kj::String grubConfig();
// Returns the entry of one slot. `arguments` has no slot's name; this function adds it.
kj::String bootEntry(Slot slot, kj::StringPtr arguments);

// --- the kernel's command line

struct ArgumentSources {
  kj::StringPtr platform;
  kj::StringPtr config;                     // talos.config; empty: "none"
  kj::ArrayPtr<const kj::StringPtr> extra;  // machine.install.extraKernelArgs
  kj::StringPtr arch = buildVersion().arch;
  // Set for a CD and for network boot, where the user may add a source to the command line:
  // talos.config is then left out unless `config` is given, because the first one counts.
  bool sourceMayFollow = false;
};
// Arguments of x86 are translated to their arm64 names: the serial port, of the PL011 kind in
// virtual machines and in servers (Arm BSA), and the separate page tables of user space.
kj::String bootArguments(const ArgumentSources& sources);

}  // namespace talos::install
