// Opening an encrypted volume, and changing its keys while it is open.
//
// The device gets what it lacks: one that is empty is formatted with all keys of the settings; one
// whose keys differ from the settings gets theirs, so whatever a change of keys left that was cut
// is finished here, unless KeyCare::kLeave says that the settings may not be those that count. One
// that holds anything else is refused, and nothing is written to it, nor to one that no key opens.
//
// Both may be repeated after a crash at any line.
#pragma once

#include <kj/function.h>

#include "machined/disk/encryption/luks-client.h"

namespace talos::machined {

struct OpenVolume {
  unsigned slot;  // whose key opened it
  bool fresh;     // a file system has to be made in it, then settle() called
};

using SayLine = kj::Function<void(kj::StringPtr line)>;
// Makes a list the one that boots rely on. Once, and again when that is not known to be so.
using PersistKeys = kj::Function<kj::Promise<void>()>;

// As /dev/mapper/<mapping>. Throws FailedPrecondition naming the device and what to do. Keys that
// cannot be changed are said, and the volume is open. `persist` is called before it is formatted
// with these keys, and when keys are put right, before those of others are removed.
enum class KeyCare { kPutRight, kLeave };
kj::Promise<OpenVolume> openVolume(Luks& luks, kj::String device, kj::String mapping,
                                   const VolumeSettings& settings, SayLine& say,
                                   PersistKeys persist, KeyCare care = KeyCare::kPutRight);

// Its keys are made those of the settings while it is open; so does openVolume().
// FailedPrecondition when none of them opens it.
kj::Promise<void> putKeysRight(Luks& luks, kj::String device, const VolumeSettings& settings,
                               PersistKeys persist);

// From the list that is persisted to another one; `persist` makes that the persisted one. Again
// after a cut it comes to the same end. FailedPrecondition when no key of either list opens it.
//   kWhole          until the volume has the keys of `after` and no others
//   kUntilPersisted a boot with `after` opens it, and does the rest
// `step` is called with each step before it is done.
enum class KeyChangeExtent { kWhole, kUntilPersisted };
kj::Promise<void> changeKeys(
    Luks& luks, kj::String device, const VolumeSettings& before, const VolumeSettings& after,
    KeyChangeExtent extent, PersistKeys persist, SayLine step = [](kj::StringPtr) {});

// A key that the node will not have, at a slot that the settings leave to one. What was there goes
// first: after a cut there is none, and it is done again. FailedPrecondition when it is no such
// slot.
kj::Promise<void> putRecoveryKey(Luks& luks, kj::String device, const VolumeSettings& settings,
                                 VolumeKey key);
// 200 bits of chance, in eight groups of letters and digits that cannot be taken for each other.
kj::String newRecoveryPassphrase();

// "vda5" -> "vda5-encrypted"
kj::String mappingOf(kj::StringPtr partition);

}  // namespace talos::machined
