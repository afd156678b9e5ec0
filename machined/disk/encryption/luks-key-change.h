// How the keys of a volume become those of another list, without a moment at which it could be
// lost. Pure.
//
// There is a list that is persisted: a boot opens the volume with its keys, each tried at its own
// slot and then at all others. At every moment, wherever power goes, at least one key of that list
// opens it. So: first the new keys are added where there is room, and seen to open it, while the
// key that opened it stays as it is; then the new list is persisted; and only then slots are
// replaced and removed, while one key of the new list stays as it is until it has a place of its
// own. A new key for whose slot there is no room yet waits at another one meanwhile. Of STATE, a
// boot has only the keys `atBoot`: the one that stays is one of these.
//
// With both lists the same it is what a boot does: it finishes what was cut, and puts right what
// somebody else has changed. Slots that no list names are removed. A slot that the new list leaves
// to a recovery key, which the node does not have, stays as it is, unless the old list has a key
// there.
#pragma once

#include "machined/disk/encryption/encryption-settings.h"

namespace talos::machined {

// Where a key that opens the volume is, and which it is.
struct KeyPlace {
  enum class List { kBefore, kAfter } list;
  size_t key;     // of that list
  unsigned slot;  // where it is in the header
};

struct KeyStep {
  enum class What {
    kAdd,      // the key `key` of the new list, to `slot`, which is free
    kVerify,   // that it opens it from there
    kPersist,  // the new list
    kRemove,   // what is at `slot`
  } what;
  unsigned slot = 0;
  size_t key = 0;
  KeyPlace by{};  // authorises kAdd; has to stay with kRemove
};

struct KeyChange {
  kj::ArrayPtr<const VolumeKey> before, after;
  kj::ArrayPtr<const unsigned> used;  // slots in the header
  KeyPlace opened;                    // of `before`, and `atBoot` if one of these fits
  kj::ArrayPtr<const bool> right;     // for each of `after`: it opens its own slot
  kj::ArrayPtr<const unsigned> recovery = nullptr;  // slots that the new list leaves to such keys
};

// Throws FailedPrecondition when all slots have keys of the list that is persisted, so that there
// is no room.
kj::Vector<KeyStep> planKeyChange(const KeyChange& change, unsigned slots = kKeySlots);

}  // namespace talos::machined
