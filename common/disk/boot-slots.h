// The record of the two systems of a node, slot A and slot B: which one is started. It is the block
// of GRUB's environment, since on a machine GRUB reads and writes it; the launcher of a node in a
// container does what GRUB does there. Pure.
//
// The slot `slot` is confirmed: it has been up. `try` is one that has not been yet; it is started
// instead while `tries` is above 0, and the boot loader counts that down, on the disk, before it
// starts it. Whoever installs a system beside the running one names it in `try`; whoever finds that
// it works makes it `slot`. A system that cannot be loaded at all makes the other one start at
// once.
//
// A node in a container has its slots in a folder: A/ and B/, grub/grubenv, which is the record,
// and the file `meta`, which has the format of the partition META of a machine.
#pragma once

#include <kj/array.h>
#include <kj/string.h>

namespace talos::install {

enum class Slot { kA, kB };
kj::StringPtr nameOf(Slot slot);
kj::Maybe<Slot> slotNamed(kj::StringPtr name);
Slot otherThan(Slot slot);

// Of a folder of slots, and where a node in a container has its own.
constexpr kj::StringPtr kSlotsPath = "/system/boot"_kj;
constexpr kj::StringPtr kRecordFile = "grub/grubenv"_kj, kMetaFile = "meta"_kj;
constexpr uint64_t kMetaFileBytes = 1u << 20;  // zeros are a META without values

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

// The file grubenv: exactly 1024 bytes, as GRUB wants it. None for what is no such file.
kj::String writeSlots(const SlotState& state);
kj::Maybe<SlotState> readSlots(kj::ArrayPtr<const char> text);

}  // namespace talos::install
