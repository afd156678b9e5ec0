// Plans how the keys of a volume change from one list to another, so that the volume can be opened
// at every moment. Pure.
//
// One list is persisted: a boot opens the volume with its keys, and tries each key at its own slot,
// then at all others. At every moment, wherever power is cut, at least one key of the persisted
// list opens the volume. First the new keys are added where slots are free, and each is verified to
// open the volume, while the key that opened it stays. Then the new list is persisted. Only then
// are slots replaced and removed, while one key of the new list stays until it has its own slot. A
// new key whose slot is not free yet waits in another slot. For STATE, a boot has only the keys
// with `atBoot`, so the key that stays is one of these.
//
// With two equal lists this is the work of each boot: it finishes a change that was cut, and
// repairs changes by others. Slots that neither list names are removed. A slot that the new list
// leaves to a recovery key, which the node does not have, stays as it is, unless the old list has a
// key there.
#pragma once

#include "machined/disk/encryption/encryption-settings.h"

namespace talos::machined {

// Place of a key that opens the volume.
struct KeyPlace {
  enum class List { kBefore, kAfter } list;
  size_t key;     // of that list
  unsigned slot;  // where it is in the header
};

struct KeyStep {
  enum class What {
    kAdd,      // adds the key `key` of the new list to `slot`, which is free
    kVerify,   // verifies that it opens the volume from there
    kPersist,  // persists the new list
    kRemove,   // removes the key at `slot`
  } what;
  unsigned slot = 0;
  size_t key = 0;
  KeyPlace by{};  // authorises kAdd; must stay with kRemove
};

struct KeyChange {
  kj::ArrayPtr<const VolumeKey> before, after;
  kj::ArrayPtr<const unsigned> used;  // slots in the header
  KeyPlace opened;                    // of `before`, and `atBoot` if one of these fits
  kj::ArrayPtr<const bool> right;     // for each of `after`: it opens its own slot
  kj::ArrayPtr<const unsigned> recovery = nullptr;  // left to recovery keys
};

// Throws FailedPrecondition if keys of the persisted list occupy all slots, so that none is free.
kj::Vector<KeyStep> planKeyChange(const KeyChange& change, unsigned slots = kKeySlots);

}  // namespace talos::machined
