#include "common/disk/boot-slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace talos::install {
namespace {

std::string show(kj::Maybe<SlotState> state) {
  KJ_IF_MAYBE (s, state) {
    std::string attempt = "-";
    KJ_IF_MAYBE (slot, s->attempt) attempt = nameOf(*slot).cStr();
    return std::string(nameOf(s->confirmed).cStr()) + " " + attempt + " " +
           std::to_string(s->tries) + " " + std::to_string(s->healthTimeoutS);
  }
  return "none";
}

}  // namespace

// Catches: a state that GRUB or the next boot reads otherwise.
TEST(BootSlots, RecordOfTheSlotsIsReadAsWritten) {
  EXPECT_EQ(writeSlots({}).size(), 1024);
  for (auto& state :
       {SlotState{.confirmed = Slot::kA, .attempt = nullptr, .tries = 0},
        SlotState{.confirmed = Slot::kB, .attempt = Slot::kA, .tries = 3, .healthTimeoutS = 90},
        SlotState{Slot::kA, Slot::kB, 0}}) {
    EXPECT_EQ(show(readSlots(writeSlots(state))), show(state));
  }
  auto text = writeSlots({Slot::kB, Slot::kA, 2});
  EXPECT_THAT(text.cStr(), testing::StartsWith(
                               "# GRUB Environment Block\nslot=B\ntry=A\ntries=2\nwithin=600\n##"));
  EXPECT_EQ(show(readSlots(text.slice(0, 1023))), "none");
  EXPECT_EQ(show(readSlots(nullptr)), "none");
  text[30] = 'C';
  ASSERT_EQ(std::string(text.cStr() + 25, 6), "slot=C");
  EXPECT_EQ(show(readSlots(text)), "none");
}

}  // namespace talos::install
