// The files of the boot loader: its configuration, the entries of the two slots, and which slot is
// to be started. Pure.
//
// BOOT has
//   grub/grub.cfg    the same on every node
//   grub/grubenv     which slot (common/disk/boot-slots.h)
//   A/, B/           vmlinuz, initramfs and boot.cfg, which loads them with the arguments of that
//                    system; so a system keeps its arguments whatever is installed beside it
#pragma once

#include <kj/array.h>
#include <kj/string.h>
#include <kj/vector.h>

#include "common/base/version.h"
#include "common/disk/boot-slots.h"

namespace talos::install {

// A slot that has all of its files.
struct WholeSystem {
  Slot slot;
  kj::String version;
};
kj::String grubConfig();
// Of one slot. `arguments` has no name of a slot: that is added.
kj::String bootEntry(Slot slot, kj::StringPtr arguments);

// --- the kernel's command line

struct ArgumentSources {
  kj::StringPtr platform;
  kj::StringPtr config;                     // talos.config; empty: "none"
  kj::ArrayPtr<const kj::StringPtr> extra;  // machine.install.extraKernelArgs
  kj::StringPtr arch = buildVersion().arch;
  // Of a CD and of the network, where somebody may add a source to the line: without one
  // talos.config is left out, because the first one counts.
  bool sourceMayFollow = false;
};
// Arguments of x86 have the names that arm64 has for the same: its serial port, of the PL011 kind
// in virtual machines and in servers (Arm BSA), and the separate page tables of user space.
kj::String bootArguments(const ArgumentSources& sources);

}  // namespace talos::install
