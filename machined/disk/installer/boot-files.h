// The files of the boot loader: its configuration, the entries of the two slots, and which slot is
// to be started. Pure.
//
// BOOT has
//   grub/grub.cfg    the same on every node
//   grub/grubenv     which slot (below)
//   A/, B/           vmlinuz, initramfs and boot.cfg, which loads them with the arguments of that
//                    system; so a system keeps its arguments whatever is installed beside it
//
// The slot `slot` is confirmed: it has been up. `try` is one that has not been yet; it is started
// instead while `tries` is above 0, and the boot loader counts that down, on the disk, before it
// starts it. Whoever installs a system beside the running one names it in `try`; whoever finds that
// it works makes it `slot`. A system that cannot be loaded at all makes the other one start at
// once.
#pragma once

#include <kj/array.h>
#include <kj/string.h>
#include <kj/vector.h>

namespace talos::install {

enum class Slot { kA, kB };
kj::StringPtr nameOf(Slot slot);
kj::Maybe<Slot> slotNamed(kj::StringPtr name);
Slot otherThan(Slot slot);

constexpr unsigned kMostTries = 3;
constexpr unsigned kHealthTimeoutS = 600, kMostHealthTimeoutS = 86400;

struct SlotState {
  Slot confirmed = Slot::kA;
  kj::Maybe<Slot> attempt = nullptr;
  unsigned tries = 0;  // left
  // The time in which a system on trial has to become healthy. It is passed with talos.trial=…, and
  // the kernel with panic=… to reboot when it, or process 1, fails.
  unsigned healthTimeoutS = kHealthTimeoutS;
};
// A slot that has all of its files.
struct WholeSystem {
  Slot slot;
  kj::String version;
};
// The file grubenv: exactly 1024 bytes, as GRUB wants it. None for what is no such file.
kj::String writeSlots(const SlotState& state);
kj::Maybe<SlotState> readSlots(kj::ArrayPtr<const char> text);

kj::String grubConfig();
// Of one slot. `arguments` has no name of a slot: that is added.
kj::String bootEntry(Slot slot, kj::StringPtr arguments);

// --- the kernel's command line

struct ArgumentSources {
  kj::StringPtr platform;
  kj::StringPtr config;                     // talos.config; empty: "none"
  kj::ArrayPtr<const kj::StringPtr> extra;  // machine.install.extraKernelArgs
};
kj::String bootArguments(const ArgumentSources& sources);

}  // namespace talos::install
