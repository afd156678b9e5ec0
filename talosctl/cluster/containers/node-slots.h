// The boot loader of a node in a container: which of its two systems the next start is.
//
// The folder of slots of a node is what the partition BOOT is on a machine: A/ and B/ have a root
// image and its version each, grub/grubenv is the record (common/disk/boot-slots.h). The node
// writes another system and the record, as on a machine; the supervisor does what GRUB does:
//   * a try is counted on the disk before the slot on trial is started; where the count cannot be
//     written, the slot is not tried, as it would be tried for ever;
//   * a system that cannot be loaded makes the other one start at once, and not on trial;
//   * a record that cannot be read means slot A, and is reported;
//   * the system gets talos.slot and, on trial, talos.trial (argumentsOf()).
// So whatever ends a system on trial, a power cut of the host included, the next start is the old
// one.
//
// The node is root in there, and the supervisor is root on the host: nothing is opened through a
// link, and only files are.
//
// Crash: the folder is made beside its place and renamed, so that it is there whole or not at all.
#pragma once

#include <kj/function.h>
#include <kj/io.h>
#include <kj/string.h>
#include <kj/vector.h>

#include "common/disk/boot-slots.h"

namespace talos::cluster {

// The choice that the record asks for. Pure, but for `save`, which makes the record durable or
// throws; that is a line of `said` and no failure.
struct SlotChoice {
  install::Slot slot = install::Slot::kA;
  kj::Maybe<unsigned> trialS;  // the time for its trial; none: it is not on trial
  kj::Vector<kj::String> said;
};
SlotChoice chooseSlot(kj::Maybe<install::SlotState> record,
                      kj::FunctionParam<void(const install::SlotState&)> save);

// Creates the folder of a node that has none, with the image as slot A, the record saying so, and a
// META without values.
void makeSlots(kj::StringPtr folder, kj::StringPtr image, kj::StringPtr version);

// The next start, with the try counted. `load` gets a squashfs of its full length, and throws when
// that cannot be started. FailedPrecondition when neither system can be loaded.
using LoadImage = kj::FunctionParam<void(kj::AutoCloseFd image)>;
SlotChoice startOfSlots(kj::StringPtr folder, LoadImage load);

// As a boot loader passes them to a kernel: "talos.slot=B talos.trial=600".
kj::String argumentsOf(const SlotChoice& choice);

}  // namespace talos::cluster
