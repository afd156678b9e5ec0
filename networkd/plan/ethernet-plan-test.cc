#include "networkd/plan/ethernet-plan.h"

#include <capnp/message.h>
#include <gtest/gtest.h>
#include <kj/debug.h>

#include <string>
#include <vector>

namespace talos::networkd {
namespace {

using netlink::EthernetNumber;
using netlink::EthernetState;
using Modes = std::vector<std::string>;

// A driver with every group.
EthernetState fullDriver() {
  EthernetState state;
  state.rings = std::vector<EthernetNumber>{{"rx", 256, 4096}, {"tx", 256, 1024}, {"tx-push", 0}};
  state.channels = std::vector<EthernetNumber>{{"combined", 2, 8}};
  state.features = {{"on", true, true, false},
                    {"off", false, false, false},
                    {"held", false, true, false},
                    {"fixed", true, false, true}};
  state.wakeOnLan =
      netlink::WakeOnLan{.enabled = Modes{"magic"}, .supported = Modes{"magic", "unicast"}};
  return state;
}

// Returns the steps and the problems, one a line.
std::string plannedSettings(const WantedEthernet& wanted, const EthernetState& found) {
  auto result = plan(wanted, found, 3);
  std::string text;
  for (auto& step : result.steps) {
    EXPECT_EQ(step.index, 3u);
    text += kj::str("set ", describe(step), "\n").cStr();
  }
  for (auto& problem : result.problems) text += kj::str(problem, "\n").cStr();
  return text;
}

struct EthernetRow {
  WantedEthernet wanted;
  const char* planned;
};

// Catches: a value that is set although the driver has it, which may take the link down; a value
// that is lost because another one is impossible; groups in another order; a problem that does not
// say what is possible.
TEST(EthernetPlan, OnlyWhatDiffersIsSetAndTheImpossibleIsNamed) {
  const EthernetRow rows[] = {
      {{}, ""},
      {{.rings = {{"rx", 256}, {"tx-push", 0}},
        .channels = {{"combined", 2}},
        .features = {{"on", 1}, {"off", 0}, {"fixed", 1}},
        .wakeOnLan = Modes{"magic"}},
       ""},
      {{.rings = {{"rx", 512}, {"tx", 256}, {"tx-push", 1}},
        .channels = {{"combined", 8}},
        .features = {{"on", 0}, {"off", 1}},
        .wakeOnLan = Modes{"unicast", "magic"}},
       "set rings rx 512, tx-push on\nset features on off, off on\nset channels combined 8\n"
       "set wakeOnLan magic, unicast\n"},
      {{.rings = {{"rx", 4097}, {"tx", 1024}}},
       "set rings tx 1024\nrings.rx: 4097 is more than the maximum of the driver, 4096\n"},
      {{.rings = {{"rx-mini", 64}}}, "rings.rx-mini: the driver of the link has no such value\n"},
      {{.channels = {{"rx", 1}}}, "channels.rx: the driver of the link has no such value\n"},
      {{.features = {{"tso", 1}}}, "features.tso: the link has no such feature\n"},
      {{.features = {{"fixed", 0}}},
       "features.fixed: the driver does not let it change; it is on\n"},
      {{.features = {{"held", 1}}},
       "features.held: it is off because of another feature or the state of the link\n"},
      {{.features = {{"held", 0}}}, "set features held off\n"},
      {{.wakeOnLan = Modes()}, "set wakeOnLan off\n"},
      {{.wakeOnLan = Modes{"magic", "arp"}},
       "wakeOnLan: arp: the driver of the link has only magic, unicast\n"},
  };
  for (auto& row : rows) {
    EXPECT_EQ(plannedSettings(row.wanted, fullDriver()), row.planned);
  }
}

// Catches: a driver without a group whose setting is dropped in silence, or that is to be switched
// off for ever.
TEST(EthernetPlan, ADriverWithoutAGroup) {
  EXPECT_EQ(plannedSettings(
                {.rings = {{"rx", 1}}, .channels = {{"rx", 1}}, .wakeOnLan = Modes{"magic"}}, {}),
            "rings: the driver of the link has none\nchannels: the driver of the link has none\n"
            "wakeOnLan: the driver of the link has none\n");
  EXPECT_EQ(plannedSettings({.wakeOnLan = Modes()}, {}), "");
}

// Catches: a value that the driver has rounded, reported without what it has.
TEST(EthernetPlan, WhatADriverDidNotTakeIsNamed) {
  WantedEthernet wanted{.rings = {{"rx", 500}}, .wakeOnLan = Modes{"unicast"}};
  auto steps = plan(wanted, fullDriver(), 3).steps;
  auto problems = notTaken(kj::arrayPtr(steps.data(), steps.size()), fullDriver());
  EXPECT_STREQ(kj::strArray(problems, "\n").cStr(),
               "rings.rx: the driver has 256 instead of 500\n"
               "wakeOnLan unicast: the driver has accepted this, and has not done it");
}

// Catches: a key of the spec that is lost on the way; an absent list of modes that switches
// Wake-on-LAN off.
TEST(EthernetPlan, TheSpecIsReadAsItIs) {
  capnp::MallocMessageBuilder message;
  auto spec = message.initRoot<rpc::EthernetSpecSpec>();
  EXPECT_FALSE(wantedEthernet("eth0", 7, spec.asReader()).wakeOnLan.has_value());
  auto pair = [](auto row, kj::StringPtr key, auto value) {
    row.setKey(key);
    row.setValue(value);
  };
  pair(spec.initRings(1)[0], "rx", 0u);
  pair(spec.initChannels(1)[0], "combined", 4u);
  pair(spec.initFeatures(1)[0], "rx-gro", false);
  spec.setSetsWakeOnLan(true);
  auto wanted = wantedEthernet("eth0", 7, spec.asReader());
  EXPECT_EQ(wanted.link, "eth0");
  EXPECT_EQ(wanted.version, 7u);
  EXPECT_TRUE(wanted.rings == (WantedEthernet::Values{{"rx", 0}}));
  EXPECT_TRUE(wanted.channels == (WantedEthernet::Values{{"combined", 4}}));
  EXPECT_TRUE(wanted.features == (WantedEthernet::Values{{"rx-gro", 0}}));
  ASSERT_TRUE(wanted.wakeOnLan.has_value());
  EXPECT_TRUE(wanted.wakeOnLan->empty());
}

// Catches: a status without the names and maxima that a reader needs to write a document.
TEST(EthernetPlan, TheStatusHasNamesValuesAndMaxima) {
  Records records;
  auto problem = kj::str("p");
  addEthernetStatus(records, "eth0", fullDriver(), 7, kj::arrayPtr(&problem, 1));
  auto status =
      KJ_ASSERT_NONNULL(records.find("eth0"_kj))->getRoot<rpc::EthernetStatusSpec>().asReader();
  kj::Vector<kj::String> rings;
  for (auto ring : status.getRings()) rings.add(kj::str(ring.getKey(), " ", ring.getValue()));
  EXPECT_STREQ(kj::strArray(rings, ", ").cStr(),
               "rx 256, rx-max 4096, tx 256, tx-max 1024, tx-push 0");
  EXPECT_EQ(status.getChannels().size(), 2u);
  EXPECT_STREQ(kj::strArray(status.getFeatures(), ", ").cStr(),
               "on: on, off: off, held: off [requested on], fixed: on [fixed]");
  EXPECT_STREQ(kj::strArray(status.getWakeOnLan(), ", ").cStr(), "magic");
  EXPECT_STREQ(kj::strArray(status.getWakeOnLanSupported(), ", ").cStr(), "magic, unicast");
  EXPECT_STREQ(status.getProblems()[0].cStr(), "p");
  EXPECT_EQ(status.getSpecVersion(), 7u);
}

}  // namespace
}  // namespace talos::networkd
