#include "common/base/waits.h"

#include <time.h>

namespace talos {

constinit Wait::Slot Wait::slots[kMost] = {};

Wait::Wait(kj::StringPtr text) {
  for (auto& candidate : slots) {
    uint8_t expected = kFree;
    if (candidate.state.load(std::memory_order_relaxed) != kFree) continue;
    if (!candidate.state.compare_exchange_strong(expected, kFilling)) continue;
    size_t size = kj::min(text.size(), kLongestText - 1);
    for (size_t i = 0; i < size; ++i) {
      candidate.text[i] = text[i] < ' ' || text[i] > '~' ? '?' : text[i];
    }
    candidate.text[size] = 0;
    candidate.since = now();
    candidate.state.store(kListed, std::memory_order_release);
    slot = &candidate;
    return;
  }
}

Wait& Wait::operator=(Wait&& other) noexcept {
  if (this == &other) return *this;
  end();
  slot = other.slot;
  other.slot = nullptr;
  return *this;
}

void Wait::end() noexcept {
  if (slot != nullptr) slot->state.store(kFree, std::memory_order_release);
  slot = nullptr;
}

uint64_t Wait::now() noexcept {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

}  // namespace talos
