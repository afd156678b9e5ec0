// The systems that took over without a reboot since the boot, as process 1 holds them for each next
// brain: a text in a memory file, a line for a system. Pure.
//
// A system is recognized by the device of its root image, so the one call that changes the root
// decides which system runs. The brain that is about to make this call notes the new system before,
// beside the running one: whichever has the root is found. Without a line for the root, the system
// is the one that the boot loader started.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "common/disk/boot-slots.h"

namespace talos::machined {

// The name under which process 1 holds the text, and the size of it.
constexpr kj::StringPtr kEnteredName = "upgrade/entered"_kj;
constexpr size_t kMostEntered = 512;

struct EnteredSystem {
  install::Slot slot;
  uint64_t device;        // of its root image
  int64_t trialEnds = 0;  // ms since the kernel's start (CLOCK_BOOTTIME); 0: it is not on trial
  unsigned brains = 0;    // before its first one
};

kj::String encodeEntered(kj::ArrayPtr<const EnteredSystem> systems);
// Leaves out lines that are not valid.
kj::Vector<EnteredSystem> decodeEntered(kj::StringPtr text);
// Returns the system with this root.
kj::Maybe<EnteredSystem> enteredAt(kj::ArrayPtr<const EnteredSystem> systems, uint64_t device);

}  // namespace talos::machined
