#include "common/disk/boot-slots.h"

#include <kj/debug.h>
#include <string.h>

#include "common/base/lines.h"

namespace talos::install {
namespace {

constexpr size_t kEnvironmentBytes = 1024;
constexpr kj::StringPtr kEnvironmentHead = "# GRUB Environment Block\n"_kj;

kj::ArrayPtr<const char> valueOf(kj::ArrayPtr<const char> text, kj::StringPtr key) {
  auto wanted = kj::str(key, "=");
  for (auto line : Lines(text)) {
    if (line.size() >= wanted.size() && line.slice(0, wanted.size()) == wanted.asArray()) {
      return line.slice(wanted.size(), line.size());
    }
  }
  return nullptr;
}

}  // namespace

kj::StringPtr nameOf(Slot slot) {
  return slot == Slot::kA ? "A"_kj : "B"_kj;
}
kj::Maybe<Slot> slotNamed(kj::StringPtr name) {
  if (name == "A") return Slot::kA;
  if (name == "B") return Slot::kB;
  return nullptr;
}
Slot otherThan(Slot slot) {
  return slot == Slot::kA ? Slot::kB : Slot::kA;
}

kj::String writeSlots(const SlotState& state) {
  KJ_REQUIRE(state.tries <= kMostTries && state.healthTimeoutS <= kMostHealthTimeoutS);
  kj::StringPtr attempt = "";
  KJ_IF_MAYBE (slot, state.attempt) attempt = nameOf(*slot);
  auto text = kj::str(kEnvironmentHead, "slot=", nameOf(state.confirmed), "\ntry=", attempt,
                      "\ntries=", state.tries, "\nwithin=", state.healthTimeoutS, "\n");
  auto block = kj::heapString(kEnvironmentBytes);
  memset(block.begin(), '#', block.size());
  memcpy(block.begin(), text.begin(), text.size());
  return block;
}

kj::Maybe<SlotState> readSlots(kj::ArrayPtr<const char> text) {
  if (text.size() != kEnvironmentBytes ||
      text.slice(0, kEnvironmentHead.size()) != kEnvironmentHead.asArray()) {
    return nullptr;
  }
  SlotState state;
  KJ_IF_MAYBE (slot, slotNamed(kj::heapString(valueOf(text, "slot")))) {
    state.confirmed = *slot;
  } else {
    return nullptr;
  }
  state.attempt = slotNamed(kj::heapString(valueOf(text, "try")));
  auto tries = valueOf(text, "tries");
  bool counted =
      tries.size() == 1 && tries[0] >= '0' && tries[0] <= static_cast<char>('0' + kMostTries);
  state.tries = counted ? static_cast<unsigned>(tries[0] - '0') : 0;
  auto within = kj::heapString(valueOf(text, "within")).tryParseAs<unsigned>().orDefault(0);
  if (within > 0 && within <= kMostHealthTimeoutS) state.healthTimeoutS = within;
  return kj::mv(state);
}

}  // namespace talos::install
