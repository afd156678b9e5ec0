#include "machined/disk/encryption/luks-key-change.h"

#include <kj/debug.h>

#include "common/base/error.h"

namespace talos::machined {
namespace {

using List = KeyPlace::List;
using What = KeyStep::What;

class Planner {
 public:
  Planner(const KeyChange& change, unsigned slots)
      : change(change), slots(slots), anchor(change.opened) {
    used.resize(slots);
    for (auto& u : used) u = false;
    for (auto slot : change.used) used[slot] = true;
    right.addAll(change.right);
  }

  kj::Vector<KeyStep> plan() {
    for (size_t i = 0; i < change.after.size(); ++i) {
      if (!used[slotOf(i)]) add(i, slotOf(i));
    }
    auto next = anchorOfAfter();
    steps.add(KeyStep{What::kPersist});
    anchor = next;
    settle(anchor.key);
    anchor.slot = slotOf(anchor.key);
    for (size_t i = 0; i < change.after.size(); ++i) settle(i);
    for (unsigned slot = 0; slot < slots; ++slot) {
      if (used[slot] && !isWanted(slot)) remove(slot);
    }
    return kj::mv(steps);
  }

 private:
  const KeyChange& change;
  unsigned slots;
  KeyPlace anchor;  // must not be removed
  kj::Vector<bool> used, right;
  kj::Vector<KeyStep> steps;

  unsigned slotOf(size_t i) const { return change.after[i].slot; }
  bool isWanted(unsigned slot) const {
    for (auto& key : change.after) {
      if (key.slot == slot) return true;
    }
    return isLeft(slot) && !wasOurs(slot);
  }
  bool isLeft(unsigned slot) const {
    for (auto left : change.recovery) {
      if (left == slot) return true;
    }
    return false;
  }
  bool wasOurs(unsigned slot) const {
    for (auto& key : change.before) {
      if (key.slot == slot) return true;
    }
    return false;
  }
  void add(size_t key, unsigned slot) {
    steps.add(KeyStep{What::kAdd, slot, key, anchor});
    steps.add(KeyStep{What::kVerify, slot, key, {}});
    used[slot] = true;
    if (slot == slotOf(key)) right[key] = true;
  }
  void remove(unsigned slot) {
    steps.add(KeyStep{What::kRemove, slot, 0, anchor});
    used[slot] = false;
    for (size_t i = 0; i < right.size(); ++i) {
      if (slotOf(i) == slot) right[i] = false;
    }
  }
  // Puts the key into its own slot.
  void settle(size_t key) {
    if (right[key]) return;
    if (used[slotOf(key)]) remove(slotOf(key));
    add(key, slotOf(key));
  }

  // Returns a key of the new list that opens the volume at a boot now; adds one if none does.
  KeyPlace anchorOfAfter() {
    auto& opened = change.before[change.opened.key];
    auto& after = change.after;
    for (size_t i = 0; i < after.size(); ++i) {
      if (after[i].atBoot && after[i].opensLike(opened)) {
        return {List::kAfter, i, change.opened.slot};
      }
    }
    for (size_t i = 0; i < after.size(); ++i) {
      if (after[i].atBoot && right[i]) return {List::kAfter, i, slotOf(i)};
    }
    size_t first = 0;
    while (!after[first].atBoot) ++first;
    auto slot = room();
    add(first, slot);
    return {List::kAfter, first, slot};
  }
  unsigned room() {
    for (unsigned slot = 0; slot < slots; ++slot) {
      if (!used[slot] && !isLeft(slot)) return slot;
    }
    for (unsigned slot = 0; slot < slots; ++slot) {
      if (slot == change.opened.slot || wasOurs(slot) || isLeft(slot)) continue;
      remove(slot);
      return slot;
    }
    fail(ErrorKind::kFailedPrecondition,
         kj::str("all ", slots,
                 " key slots are in use, so no key can be replaced; remove one first"));
  }
};

}  // namespace

kj::Vector<KeyStep> planKeyChange(const KeyChange& change, unsigned slots) {
  KJ_REQUIRE(change.right.size() == change.after.size() && change.opened.list == List::kBefore);
  bool openable = false;
  for (auto& key : change.after) openable = openable || key.atBoot;
  KJ_REQUIRE(openable, "no boot could open it");
  return Planner(change, slots).plan();
}

}  // namespace talos::machined
