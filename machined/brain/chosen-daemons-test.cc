#include "machined/brain/chosen-daemons.h"

#include <gtest/gtest.h>

namespace talos::machined {
namespace {

// The ids and the warnings, each followed by a blank.
std::string chosenBy(kj::StringPtr arguments) {
  std::string text;
  auto chosen = chosenDaemons(KernelArguments(arguments.asArray()), daemons(),
                              [&](kj::StringPtr warning) { text += warning.cStr(); });
  KJ_IF_MAYBE (ids, chosen) {
    for (auto id : *ids) text += std::string(id.cStr()) + " ";
    return text;
  }
  return "all";
}

// Catches: a daemon that waits for ever for a daemon that was not chosen; a mistyped name that
// makes every service run, or none, without a warning.
TEST(ChosenDaemons, WithThoseAfterWhichTheyStart) {
  EXPECT_EQ(chosenBy("talos.slot=A"), "all");
  EXPECT_EQ(chosenBy("talos.debug.services=networkd"), "networkd ");
  EXPECT_EQ(chosenBy("talos.debug.services=vipd"), "etcd etcd-supervisor networkd vipd ");
  EXPECT_EQ(chosenBy("talos.debug.services=apid,,logd talos.debug.services=trustd"),
            "apid logd networkd trustd ");
  EXPECT_EQ(chosenBy("talos.debug.services="), "");
  EXPECT_EQ(
      chosenBy("talos.debug.services=netwrkd,apid")
          .rfind("talos.debug.services: no service is named \"netwrkd\"; use one of networkd, "),
      0u);
}

}  // namespace
}  // namespace talos::machined
