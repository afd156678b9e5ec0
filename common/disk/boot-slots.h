// Record of the two systems of a node, slot A and slot B, and of the one that is started. It is the
// block of GRUB's environment, since on a machine GRUB reads and writes it; for a node in a
// container the launcher does GRUB's part. Pure.
//
// The slot `slot` is confirmed: its system has worked. The slot `try` is not confirmed yet; it is
// started instead while `tries` is above 0, and the boot loader decrements `tries`, on the disk,
// before it starts the slot. An installer of a system beside the running one names the new slot in
// `try`; when the new system works, it becomes `slot`. If a system cannot be loaded at all, the
// other one is started at once.
//
// A node in a container has its slots in a folder: A/ and B/, grub/grubenv, which is the record,
// and the file `meta`, in the format of the partition META of a machine.
#pragma once

#include <kj/array.h>
#include <kj/string.h>

namespace talos::install {

enum class Slot { kA, kB };
kj::StringPtr nameOf(Slot slot);
kj::Maybe<Slot> slotNamed(kj::StringPtr name);
Slot otherThan(Slot slot);

// Paths in a folder of slots, and the path of this folder on a node in a container.
constexpr kj::StringPtr kSlotsPath = "/system/boot"_kj;
constexpr kj::StringPtr kRecordFile = "grub/grubenv"_kj, kMetaFile = "meta"_kj;
// A request of the node to its launcher in that folder: the name of a slot, whose root image the
// launcher mounts for the node. The launcher removes the request, and leaves a refusal if it
// cannot.
constexpr kj::StringPtr kMountRequest = "mount"_kj, kMountRefusal = "mount-refused"_kj;
// Where the node finds the image then.
constexpr kj::StringPtr kMountedImage = "/root/next"_kj;
constexpr uint64_t kMetaFileBytes = 1u << 20;  // all zeros are a META without values

constexpr unsigned kMostTries = 3;
constexpr unsigned kHealthTimeoutS = 600, kMostHealthTimeoutS = 86400;

// Seconds that a request without a reboot adds to its health timeout. A system that does not know
// such requests, and would reboot, refuses this timeout, and changes nothing.
constexpr unsigned kLiveTimeout = 1u << 20;

struct SlotState {
  Slot confirmed = Slot::kA;
  kj::Maybe<Slot> attempt = nullptr;
  unsigned tries = 0;  // number left
  // Time in which a system on trial must become healthy. It is passed with talos.trial=…, and to
  // the kernel with panic=…, so that the machine reboots if the kernel, or process 1, fails.
  unsigned healthTimeoutS = kHealthTimeoutS;
};

// Write and read the file grubenv: exactly 1024 bytes, as GRUB requires. Reading returns nullptr
// for other bytes.
kj::String writeSlots(const SlotState& state);
kj::Maybe<SlotState> readSlots(kj::ArrayPtr<const char> text);

}  // namespace talos::install
