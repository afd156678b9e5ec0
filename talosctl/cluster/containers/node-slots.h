// The boot loader of a node in a container: chooses the system for the next start.
//
// The slots folder of a node corresponds to the partition BOOT of a machine: A/ and B/ each have a
// root image and its version, and grub/grubenv is the record (common/disk/boot-slots.h). The node
// writes another system and the record, as on a machine; the supervisor replaces GRUB:
//   * it counts a try on the disk before it starts the slot on trial; if the count cannot be
//     written, the slot is not tried, because it would be tried forever;
//   * if a system cannot be loaded, the other one starts at once, and not on trial;
//   * it mounts the image of a slot for a running node, which has no loop devices, on request;
//   * a record that cannot be read means slot A, and is reported;
//   * the system gets talos.slot and, on trial, talos.trial (argumentsOf()).
//
// So after any end of a system on trial, including a power cut of the host, the old system starts
// next.
//
// The node is root inside the folder, and the supervisor is root on the host: the supervisor opens
// nothing through a link, and only regular files.
//
// Crash: the folder is created beside its place and renamed, so it exists either completely or not
// at all.
#pragma once

#include <kj/function.h>
#include <kj/io.h>
#include <kj/string.h>
#include <kj/vector.h>

#include "common/disk/boot-slots.h"

namespace talos::cluster {

// Chooses a slot by the record. Pure, except for `save`, which makes the record durable or throws;
// such an error becomes a line of `said` and no failure.
struct SlotChoice {
  install::Slot slot = install::Slot::kA;
  kj::Maybe<unsigned> trialS;  // duration of its trial in seconds; nullptr: not on trial
  kj::Vector<kj::String> said;
};
SlotChoice chooseSlot(kj::Maybe<install::SlotState> record,
                      kj::FunctionParam<void(const install::SlotState&)> save);

// Creates the folder of a node without one: the image in slot A, a record that selects it, and a
// META without values.
void makeSlots(kj::StringPtr folder, kj::StringPtr image, kj::StringPtr version);

// Chooses the next start and counts the try. `load` gets a squashfs of full length, and throws if
// it cannot be started. FailedPrecondition if neither system can be loaded.
using LoadImage = kj::FunctionParam<void(kj::AutoCloseFd image)>;
SlotChoice startOfSlots(kj::StringPtr folder, LoadImage load);

// Serves the request of a running node for the image of a slot (install::kMountRequest), if there
// is one. `mount` gets a squashfs of full length, and throws if the node cannot have it; then the
// node finds the reason as the refusal. Returns a line for the node's log; nullptr without a
// request. The request is removed before the answer: a crash before that serves it again.
kj::Maybe<kj::String> serveMountRequest(kj::StringPtr folder, LoadImage mount);

// Returns the arguments as a boot loader passes them to a kernel: "talos.slot=B talos.trial=600".
kj::String argumentsOf(const SlotChoice& choice);

}  // namespace talos::cluster
