// Waits of this program that are under way: the event that each waits for, and since when. They
// help to examine a program that seems to hang (`talosctl debug stack`, reports of crashes).
//
// The table belongs to the whole program, like its standard error, and is never destroyed: a signal
// handler reads it, on any thread and in the middle of a change. So it has a fixed size, and an
// entry is either complete or not listed. A wait that finds no free entry is not listed.
#pragma once

#include <kj/string.h>
#include <stdint.h>

#include <atomic>

namespace talos {

class Wait {
 public:
  // Copies the text, or the beginning of a long one. Characters other than printable ASCII become
  // '?'.
  explicit Wait(kj::StringPtr text);
  ~Wait() noexcept(false) { end(); }
  Wait(Wait&& other) noexcept : slot(other.slot) { other.slot = nullptr; }
  Wait& operator=(Wait&& other) noexcept;
  KJ_DISALLOW_COPY(Wait);

  static constexpr size_t kMost = 256, kLongestText = 112;

  struct Slot {
    std::atomic<uint8_t> state;  // kFree, kFilling, kListed
    uint64_t since;              // CLOCK_MONOTONIC, ns
    char text[kLongestText];     // ends with 0
  };
  // Calls use(text, nanoseconds) for each wait, in no order. Allocates nothing and takes no lock.
  template <typename F>
  static void forEach(F&& use);

 private:
  static constexpr uint8_t kFree = 0, kFilling = 1, kListed = 2;
  static Slot slots[kMost];
  Slot* slot = nullptr;

  void end() noexcept;
  static uint64_t now() noexcept;
};

template <typename F>
void Wait::forEach(F&& use) {
  auto at = now();
  for (auto& slot : slots) {
    if (slot.state.load(std::memory_order_acquire) == kListed) {
      use(static_cast<const char*>(slot.text), at - slot.since);
    }
  }
}

}  // namespace talos
