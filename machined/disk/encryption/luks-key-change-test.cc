#include "machined/disk/encryption/luks-key-change.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "common/base/error.h"

namespace talos::machined {
namespace {

using What = KeyStep::What;
using Header = std::map<unsigned, std::string>;
using Keys = std::map<unsigned, std::string>;  // a list of a config; boots do not have "a-"

kj::Vector<VolumeKey> listOf(const Keys& keys) {
  kj::Vector<VolumeKey> list;
  for (auto& [slot, passphrase] : keys) {
    list.add(slot, KeyKind::kStatic,
             kj::heapArray<kj::byte>(kj::StringPtr(passphrase.c_str()).asBytes()),
             passphrase.back() != '-');
  }
  return list;
}
std::string textOf(const VolumeKey& key) {
  return {reinterpret_cast<const char*>(key.passphrase.begin()), key.passphrase.size()};
}

enum class Which { kAtBoot, kAll };
// Opens it like the program (machined/disk/luks/luks-device.h).
kj::Maybe<KeyPlace> openWith(const Header& header, kj::ArrayPtr<const VolumeKey> keys,
                             Which which = Which::kAtBoot) {
  for (bool own : {true, false}) {
    for (size_t i = 0; i < keys.size(); ++i) {
      if (which == Which::kAtBoot && !keys[i].atBoot) continue;
      for (auto& [slot, passphrase] : header) {
        if ((slot == keys[i].slot) == own && passphrase == textOf(keys[i])) {
          return KeyPlace{KeyPlace::List::kBefore, i, slot};
        }
      }
    }
  }
  return nullptr;
}

kj::Vector<KeyStep> planFor(const Header& header, kj::ArrayPtr<const VolumeKey> before,
                            kj::ArrayPtr<const VolumeKey> after, unsigned slots,
                            kj::ArrayPtr<const unsigned> recovery = nullptr) {
  kj::Vector<unsigned> used;
  for (auto& row : header) used.add(row.first);
  auto right = KJ_MAP(key, after) {
    auto found = header.find(key.slot);
    return found != header.end() && found->second == textOf(key);
  };
  auto opened = openWith(header, before);
  if (opened == nullptr) opened = openWith(header, before, Which::kAll);
  return planKeyChange({.before = before,
                        .after = after,
                        .used = used,
                        .opened = KJ_ASSERT_NONNULL(opened),
                        .right = right,
                        .recovery = recovery},
                       slots);
}

struct Disk {
  Header header;
  Keys persisted;

  // Ends the test if the program would refuse the step.
  void carryOut(const KeyStep& step, const Keys& before, const Keys& after) {
    auto old = listOf(before), wanted = listOf(after);
    auto opens = [&](const KeyPlace& by) {
      auto& key = (by.list == KeyPlace::List::kBefore ? old : wanted)[by.key];
      auto found = header.find(by.slot);
      return found != header.end() && found->second == textOf(key);
    };
    switch (step.what) {
      case What::kAdd:
        ASSERT_EQ(header.count(step.slot), 0u);
        ASSERT_TRUE(opens(step.by));
        header[step.slot] = textOf(wanted[step.key]);
        break;
      case What::kVerify:
        ASSERT_EQ(header[step.slot], textOf(wanted[step.key]));
        break;
      case What::kPersist:
        persisted = after;
        break;
      case What::kRemove:
        ASSERT_NE(step.slot, step.by.slot);
        ASSERT_TRUE(opens(step.by));
        header.erase(step.slot);
        break;
    }
  }
  // Boots with the persisted list.
  void boot(unsigned slots) {
    auto list = listOf(persisted);
    ASSERT_TRUE(openWith(header, list) != nullptr);
    for (auto& step : planFor(header, list, list, slots)) carryOut(step, persisted, persisted);
    ASSERT_EQ(header, persisted);
  }
};

std::string show(kj::ArrayPtr<const KeyStep> steps) {
  std::string text;
  for (auto& step : steps) {
    constexpr const char* kNames[] = {"add", "verify", "persist", "remove"};
    if (!text.empty()) text += ", ";
    text += kNames[static_cast<int>(step.what)];
    if (step.what != What::kPersist) text += " " + std::to_string(step.slot);
    if (step.what == What::kAdd || step.what == What::kRemove) {
      text += " by " + std::to_string(step.by.slot);
    }
  }
  return text;
}

struct Row {
  const char* what;
  Header header;
  Keys before, after;
  const char* steps;
};

const Row kRows[] = {
    {"nothing to do", {{0, "a"}}, {{0, "a"}}, {{0, "a"}}, "persist"},
    {"one more", {{0, "a"}}, {{0, "a"}}, {{0, "a"}, {1, "b"}}, "add 1 by 0, verify 1, persist"},
    {"one less", {{0, "a"}, {1, "b"}}, {{0, "a"}, {1, "b"}}, {{1, "b"}}, "persist, remove 0 by 1"},
    {"another slot",
     {{0, "a"}},
     {{0, "a"}},
     {{1, "a"}},
     "add 1 by 0, verify 1, persist, remove 0 by 1"},
    {"another passphrase of the only slot",
     {{0, "a"}},
     {{0, "a"}},
     {{0, "b"}},
     "add 1 by 0, verify 1, persist, remove 0 by 1, add 0 by 1, verify 0, remove 1 by 0"},
    {"two exchanged",
     {{0, "a"}, {1, "b"}},
     {{0, "a"}, {1, "b"}},
     {{0, "b"}, {1, "a"}},
     "persist, remove 1 by 0, add 1 by 0, verify 1, remove 0 by 1, add 0 by 1, verify 0"},
    {"one that nobody knows",
     {{0, "a"}, {5, "?"}},
     {{0, "a"}},
     {{0, "a"}},
     "persist, remove 5 by 0"},
    {"a boot after a cut",
     {{0, "a"}, {1, "b"}},
     {{0, "b"}},
     {{0, "b"}},
     "persist, remove 0 by 1, add 0 by 1, verify 0, remove 1 by 0"},
};

// Catches: more steps than needed (each derivation of a key takes a second), and an unintended
// order.
TEST(KeyChange, HasTheStepsThatItNeeds) {
  for (auto& row : kRows) {
    auto before = listOf(row.before), after = listOf(row.after);
    EXPECT_EQ(show(planFor(row.header, before, after, kKeySlots)), row.steps) << row.what;
  }
}

// Catches: a recovery key that a boot or another change removes, or whose slot another key gets; an
// earlier key of the node that stays as a recovery key.
TEST(KeyChange, LeavesRecoveryKeysAlone) {
  auto plan = [](const Header& header, const Keys& before, const Keys& after,
                 std::initializer_list<unsigned> recovery) {
    auto old = listOf(before), wanted = listOf(after);
    return show(
        planFor(header, old, wanted, kKeySlots, kj::arrayPtr(recovery.begin(), recovery.size())));
  };
  Header header{{0, "a"}, {1, "theirs"}};
  EXPECT_EQ(plan(header, {{0, "a"}}, {{0, "a"}}, {1}), "persist");
  EXPECT_EQ(plan(header, {{0, "a"}}, {{0, "a"}}, {}), "persist, remove 1 by 0");
  EXPECT_EQ(plan(header, {{0, "a"}}, {{0, "b"}}, {1, 2}),
            "add 3 by 0, verify 3, persist, remove 0 by 3, add 0 by 3, verify 0, remove 3 by 0");
  header = {{0, "a"}, {1, "b"}};
  EXPECT_EQ(plan(header, {{0, "a"}, {1, "b"}}, {{0, "a"}}, {1}), "persist, remove 1 by 0");
}

// Catches: a full header that is refused although a slot is not needed; a header full of needed
// keys that loses one of them.
TEST(KeyChange, FullHeaderKeepsItsNeededKeys) {
  Header header;
  Keys before;
  for (unsigned i = 0; i < kKeySlots; ++i) before[i] = header[i] = "old" + std::to_string(i);
  auto list = listOf(before);
  auto failure =
      kj::runCatchingExceptions([&]() { planFor(header, list, listOf({{0, "new"}}), kKeySlots); });
  EXPECT_EQ(messageOf(KJ_ASSERT_NONNULL(failure)),
            "all 32 key slots are in use, so no key can be replaced; remove one first");
  before.erase(7);
  list = listOf(before);
  auto wanted = listOf({{0, "new"}});
  auto steps = planFor(header, list, wanted, kKeySlots);
  EXPECT_EQ(show(kj::arrayPtr(steps.begin(), 4)), "remove 7 by 0, add 7 by 0, verify 7, persist");
  // The slot that opened it is needed, even if no list names it.
  for (unsigned i = 0; i < kKeySlots; ++i) header[i] = "?";
  header[0] = "old31";
  list = listOf({{31, "old31"}});
  steps = planFor(header, list, wanted, kKeySlots);
  EXPECT_EQ(show(kj::arrayPtr(steps.begin(), 4)), "remove 1 by 0, add 1 by 0, verify 1, persist");
  for (unsigned i = 0; i < kKeySlots; ++i) header[i] = "old" + std::to_string(i);
  // A key that stays needs no free slot.
  wanted = listOf({{3, "old3"}, {4, "new"}});
  EXPECT_NO_THROW(planFor(header, listOf({{3, "old3"}}), wanted, kKeySlots));
}

// Cuts random changes at every step, with few slots, so that the keys compete for them.
// Catches: a moment at which no key of the persisted list opens the volume; a cut that a boot does
// not repair, or after which it leaves other keys than the list has.
TEST(KeyChange, LosesTheVolumeAtNoMoment) {
  std::minstd_rand random(7);
  unsigned changes = 0, cuts = 0, full = 0;
  for (unsigned round = 0; round < 20'000; ++round) {
    unsigned slots = 1 + random() % 5;
    auto keys = [&]() {
      Keys list;
      for (unsigned i = 1 + random() % slots; i > 0; --i) {
        list[random() % slots] =
            std::string(1, static_cast<char>('a' + random() % 4)) + (random() % 3 == 0 ? "-" : "");
      }
      auto& one = list.begin()->second;
      if (random() % 2 == 0 || list.size() == 1) one = one[0];
      for (auto& key : list) {
        if (key.second.size() == 1) return list;
      }
      one = one[0];
      return list;
    };
    Disk disk{{}, keys()};
    for (auto& key : disk.persisted) {
      if (random() % 4 != 0) disk.header[key.first] = key.second;  // another cut before
    }
    for (unsigned i = random() % 3; i > 0; --i) disk.header[random() % slots] = "?";
    // A key that a cut has left in another slot.
    if (random() % 3 == 0) disk.header[random() % slots] = disk.persisted.begin()->second;
    auto before = disk.persisted, after = keys();
    auto old = listOf(before), wanted = listOf(after);
    if (openWith(disk.header, old) == nullptr) continue;
    kj::Vector<KeyStep> steps;
    auto failure =
        kj::runCatchingExceptions([&]() { steps = planFor(disk.header, old, wanted, slots); });
    KJ_IF_MAYBE (e, failure) {
      ASSERT_EQ(kindOf(*e), ErrorKind::kFailedPrecondition) << messageOf(*e).cStr();
      ++full;
      continue;
    }
    ++changes;
    for (size_t cut = 0; cut <= steps.size(); ++cut) {
      SCOPED_TRACE(show(steps) + " cut after " + std::to_string(cut));
      Disk copy = disk;
      for (size_t i = 0; i < cut; ++i) {
        copy.carryOut(steps[i], before, after);
        if (HasFatalFailure()) return;
      }
      ASSERT_TRUE(openWith(copy.header, listOf(copy.persisted)) != nullptr);
      if (cut == steps.size()) {
        ASSERT_EQ(copy.header, after);
      }
      ++cuts;
      copy.boot(slots);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(changes, 5'000u);
  EXPECT_GT(cuts, 20'000u);
  EXPECT_GT(full, 100u);
}

}  // namespace
}  // namespace talos::machined
