// Opens an encrypted volume, and changes its keys while it is open.
//
// Prepares the device first. An empty device is formatted with all keys of the settings. A device
// whose keys differ from the settings gets their keys, which finishes a key change that was cut,
// unless KeyCare::kLeave says that the settings may not be those that count. A device with any
// other content, or that no key opens, is refused, and nothing is written to it.
//
// Both can be repeated after a crash at any line.
#pragma once

#include <kj/function.h>

#include "machined/disk/encryption/luks-client.h"

namespace talos::machined {

struct OpenVolume {
  unsigned slot;  // slot of the key that opened it
  bool fresh;     // the caller has to make a file system in it, then call settle()
  kj::Vector<kj::String> problems = {};  // of keys that could not be tried
};

using SayLine = kj::Function<void(kj::StringPtr line)>;
// Makes boots rely on this list. Called once, and again if its success is unknown.
using PersistKeys = kj::Function<kj::Promise<void>()>;

// Opens the volume as /dev/mapper/<mapping>. Throws FailedPrecondition naming the device and what
// to do, or Unavailable if a key of a server may open the volume later. A failure to change the
// keys is only reported to `say`; the volume is open. `persist` is called before the volume is
// formatted with these keys, and when keys are put right, before keys of other lists are removed.
enum class KeyCare { kPutRight, kLeave };
kj::Promise<OpenVolume> openVolume(Luks& luks, kj::String device, kj::String mapping,
                                   const VolumeSettings& settings, SayLine& say,
                                   PersistKeys persist, KeyCare care = KeyCare::kPutRight);

// Changes its keys to those of the settings while it is open, as openVolume() does.
// FailedPrecondition if none of them opens it.
kj::Promise<void> putKeysRight(Luks& luks, kj::String device, const VolumeSettings& settings,
                               PersistKeys persist);

// Changes the keys from the persisted list to another one; `persist` makes the other list the
// persisted one. Repeated after a cut, it has the same result. FailedPrecondition if no key of
// either list opens the volume.
//   kWhole          until the volume has exactly the keys of `after`
//   kUntilPersisted until a boot with `after` opens it and does the rest
// `step` is called with each step before it is done.
enum class KeyChangeExtent { kWhole, kUntilPersisted };
kj::Promise<void> changeKeys(
    Luks& luks, kj::String device, const VolumeSettings& before, const VolumeSettings& after,
    KeyChangeExtent extent, PersistKeys persist, SayLine step = [](kj::StringPtr) {});

// Adds a key that the node will not keep, at a slot that the settings leave to a recovery key. The
// key at that slot is removed first: after a cut the slot is empty, and the caller repeats the
// call. FailedPrecondition if the settings do not leave this slot to a recovery key.
kj::Promise<void> putRecoveryKey(Luks& luks, kj::String device, const VolumeSettings& settings,
                                 VolumeKey key);
// Returns 200 random bits in eight groups of letters and digits that are not easily confused.
kj::String newRecoveryPassphrase();

// "vda5" -> "vda5-encrypted"
kj::String mappingOf(kj::StringPtr partition);

}  // namespace talos::machined
