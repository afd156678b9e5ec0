#include "tests/published/config-facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/exception.h>

namespace talos::published {
namespace {

std::string problemOf(const std::string& text) {
  try {
    parseFacts(text);
  } catch (const kj::Exception& e) {
    return e.getDescription().cStr();
  }
  return "";
}

}  // namespace

// Catches: cards that are replaced one after the other, a part of another name, the VLAN of a card
// that keeps its name.
TEST(ConfigFacts, CardsGetTheNamesOfTheMachine) {
  auto file = parseFacts("card eth0 eth1\ncard eth1 eth2 bus=port3\nreplace 10.5.0.9 10.9.0.9\n");
  EXPECT_EQ(fitted(file, "links: [eth0, eth1]\neth0.7 eth10 my-eth0 10.5.0.9\n"),
            "links: [eth1, eth2]\neth1.7 eth10 my-eth0 10.9.0.9\n");
  EXPECT_EQ(file.cards[1].options, "bus=port3");
}

// Catches: a fact that no checker will see, a line that is cut off, a comment that is a fact.
TEST(ConfigFacts, LinesAreFactsSettingsOrComments) {
  auto file =
      parseFacts("# a comment\non machine\n\nbond bond0 mode 802.3ad links eth1 miimon 100\n");
  EXPECT_TRUE(file.machine);
  ASSERT_EQ(file.facts.size(), 1u);
  EXPECT_EQ(file.facts[0].option("miimon", 2), "100");
  EXPECT_EQ(file.facts[0].option("updelay", 2), "");
  EXPECT_EQ(file.facts[0].after(4), "links eth1 miimon 100");
  EXPECT_THAT(problemOf("adress eth0 10.0.0.1/8\n"), testing::HasSubstr("adress eth0"));
  EXPECT_THAT(problemOf("vlan bond0.7 id 7\n"), testing::HasSubstr("parent LINK"));
  EXPECT_NE(problemOf("refused: x\nhostname y\n"), "");
}

}  // namespace talos::published
