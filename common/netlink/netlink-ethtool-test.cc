// Settings of drivers as messages.
#include "common/netlink/netlink-ethtool.h"

#include <gtest/gtest.h>
#include <kj/debug.h>
#include <kj/encoding.h>
#include <linux/ethtool_netlink.h>

#include <utility>

#include "common/netlink/netlink-generic.h"
#include "common/netlink/test-netlink.h"

namespace talos::netlink {
namespace {

constexpr uint16_t kFamily = 30;
using Bits = std::vector<std::pair<kj::StringPtr, bool>>;

void readMessage(MessageBuilder& message, EthernetState& state) {
  auto decoded = decodeGeneric(message.finish());
  KJ_ASSERT(decoded.problem == nullptr && decoded.messages.size() == 1);
  readEthernet(decoded.messages[0].body.get<Generic>(), state);
}

// Appends bits as the kernel does: with a mask those of the mask, else those that are set.
void putBits(MessageBuilder& out, uint16_t attribute, const Bits& bits, bool masked) {
  out.nest(attribute, [&] {
    if (!masked) out.put(ETHTOOL_A_BITSET_NOMASK, nullptr);
    out.putU32(ETHTOOL_A_BITSET_SIZE, 64);
    out.nest(ETHTOOL_A_BITSET_BITS, [&] {
      uint32_t index = 0;
      for (auto& [name, value] : bits) {
        out.nest(ETHTOOL_A_BITSET_BITS_BIT, [&] {
          out.putU32(ETHTOOL_A_BITSET_BIT_INDEX, index++);
          out.putText(ETHTOOL_A_BITSET_BIT_NAME, name);
          if (value && masked) out.put(ETHTOOL_A_BITSET_BIT_VALUE, nullptr);
        });
      }
    });
  });
}

// Catches: a wrong attribute number, width or nesting, which the kernel refuses or takes for
// another value; a split that is on for off.
TEST(NetlinkEthtool, RingsByteForByte) {
  SetEthernet set{.index = 3,
                  .group = EthernetGroup::kRings,
                  .values = {{"rx", 512}, {"tx-push", 1}, {"tcp-data-split", 0}}};
  EXPECT_STREQ(kj::encodeHex(encodeEthernet(kFamily, set)).cStr(),
               // length 56, family, REQUEST|ACK, sequence, port; RINGS_SET, version 1
               "38000000"
               "1e00"
               "0500"
               "00000000"
               "00000000"
               "10010000"
               "0c000180"
               "08000100"
               "03000000"  // the index of the link
               "08000600"
               "00020000"  // ETHTOOL_A_RINGS_RX
               "05000d00"
               "01000000"  // ETHTOOL_A_RINGS_TX_PUSH
               "05000b00"
               "01000000");  // ETHTOOL_A_RINGS_TCP_DATA_SPLIT
  EXPECT_STREQ(describe(set).cStr(), "rings rx 512, tx-push on, tcp-data-split off");
}

// Catches: a mode that is added to the others instead of replacing them, or that has a name which
// the kernel does not know.
TEST(NetlinkEthtool, WakeOnLanByteForByte) {
  SetEthernet set{
      .index = 3, .group = EthernetGroup::kWakeOnLan, .values = {{"magic"}, {"unicast"}}};
  EXPECT_STREQ(kj::encodeHex(encodeEthernet(kFamily, set)).cStr(),
               // length 84, family, REQUEST|ACK, sequence, port; WOL_SET, version 1
               "54000000"
               "1e00"
               "0500"
               "00000000"
               "00000000"
               "0a010000"
               "0c000180"
               "08000100"
               "03000000"
               "34000280"  // ETHTOOL_A_WOL_MODES
               "04000100"  // no mask
               "2c000380"
               "14000180"
               "0a000200"
               "6d61676963000000"  // magic
               "04000300"
               "14000180"
               "0a000200"
               "7563617374000000"  // ucast
               "04000300");
  EXPECT_STREQ(describe(set).cStr(), "wakeOnLan magic, unicast");
  EXPECT_STREQ(describe(SetEthernet{.group = EthernetGroup::kWakeOnLan}).cStr(), "wakeOnLan off");
}

// Catches: a value or a maximum under another name; a number that the driver does not have as 0.
TEST(NetlinkEthtool, NumbersAreReadWithTheirMaxima) {
  EthernetState state;
  MessageBuilder rings(kFamily, 0), channels(kFamily, 0);
  putGenericHeader(rings, ETHTOOL_MSG_RINGS_GET_REPLY, ETHTOOL_GENL_VERSION);
  rings.putU32(ETHTOOL_A_RINGS_RX_MAX, 4096);
  rings.putU32(ETHTOOL_A_RINGS_RX, 256);
  rings.putU32(ETHTOOL_A_RINGS_TX, 128);
  rings.putU8(ETHTOOL_A_RINGS_TCP_DATA_SPLIT, ETHTOOL_TCP_DATA_SPLIT_ENABLED);
  rings.putU8(ETHTOOL_A_RINGS_RX_PUSH, 0);
  readMessage(rings, state);
  putGenericHeader(channels, ETHTOOL_MSG_CHANNELS_GET_REPLY, ETHTOOL_GENL_VERSION);
  channels.putU32(ETHTOOL_A_CHANNELS_COMBINED_MAX, 8);
  channels.putU32(ETHTOOL_A_CHANNELS_COMBINED_COUNT, 2);
  readMessage(channels, state);
  std::vector<EthernetNumber> wantedRings = {
      {"rx", 256, 4096}, {"tx", 128}, {"rx-push", 0}, {"tcp-data-split", 1}};
  std::vector<EthernetNumber> wantedChannels = {{"combined", 2, 8}};
  EXPECT_TRUE(state.rings == wantedRings);
  EXPECT_TRUE(state.channels == wantedChannels);
  EXPECT_FALSE(state.wakeOnLan.has_value());
}

// Catches: a feature that is taken for one that can be changed, or for one that is on.
TEST(NetlinkEthtool, FeaturesOfTheFourSets) {
  EthernetState state;
  MessageBuilder out(kFamily, 0);
  putGenericHeader(out, ETHTOOL_MSG_FEATURES_GET_REPLY, ETHTOOL_GENL_VERSION);
  putBits(out, ETHTOOL_A_FEATURES_HW,
          {{"a", true}, {"b", true}, {"c", false}, {"d", true}, {"", true}}, true);
  putBits(out, ETHTOOL_A_FEATURES_WANTED, {{"a", true}, {"b", true}}, false);
  putBits(out, ETHTOOL_A_FEATURES_ACTIVE, {{"a", true}, {"c", true}, {"d", true}}, false);
  putBits(out, ETHTOOL_A_FEATURES_NOCHANGE, {{"d", true}}, false);
  readMessage(out, state);
  std::vector<EthernetFeature> wanted = {{"a", true, true, false},
                                         {"b", false, true, false},
                                         {"c", true, false, true},
                                         {"d", true, false, true}};
  EXPECT_TRUE(state.features == wanted);
}

// Catches: a mode whose name a config cannot have; a mode that is supported and counts as enabled.
TEST(NetlinkEthtool, ModesAreReadByTheNamesOfTheDocument) {
  EthernetState state;
  MessageBuilder out(kFamily, 0);
  putGenericHeader(out, ETHTOOL_MSG_WOL_GET_REPLY, ETHTOOL_GENL_VERSION);
  putBits(out, ETHTOOL_A_WOL_MODES, {{"phy", false}, {"bcast", true}, {"magic", true}}, true);
  readMessage(out, state);
  std::vector<std::string> enabled = {"broadcast", "magic"}, all = {"phy", "broadcast", "magic"};
  ASSERT_TRUE(state.wakeOnLan.has_value());
  EXPECT_TRUE(state.wakeOnLan->enabled == enabled);
  EXPECT_TRUE(state.wakeOnLan->supported == all);
}

// Catches: reads outside of the message; a text of the kernel that is not plain; a set without an
// end; a number of another width that is read as one of a ring.
TEST(NetlinkEthtool, AnyBytesAreRead) {
  EthernetState state;
  MessageBuilder small(kFamily, 0), large(kFamily, 0), rings(kFamily, 0);
  putGenericHeader(small, ETHTOOL_MSG_FEATURES_GET_REPLY, ETHTOOL_GENL_VERSION);
  putBits(small, ETHTOOL_A_FEATURES_HW, {{"a", true}, {"b", false}}, true);
  auto bytes = small.finish();
  for (auto& byte : bytes) {
    auto before = byte;
    for (kj::byte other : {0x00, 0x01, 0x7f, 0xff}) {
      byte = other;
      for (auto& message : decodeGeneric(bytes).messages) {
        KJ_IF_MAYBE (part, message.body.tryGet<Generic>()) readEthernet(*part, state);
      }
    }
    byte = before;
  }

  Bits many;
  for (unsigned i = 0; i < 300; ++i) many.push_back({"\x1b[x"_kj, true});
  putGenericHeader(large, ETHTOOL_MSG_FEATURES_GET_REPLY, ETHTOOL_GENL_VERSION);
  putBits(large, ETHTOOL_A_FEATURES_HW, many, true);
  readMessage(large, state);
  ASSERT_EQ(state.features.size(), 256u);
  EXPECT_EQ(state.features[0].name, "?[x");

  putGenericHeader(rings, ETHTOOL_MSG_RINGS_GET_REPLY, ETHTOOL_GENL_VERSION);
  rings.putU16(ETHTOOL_A_RINGS_TX, 5);
  rings.put(ETHTOOL_A_RINGS_RX_PUSH, nullptr);
  readMessage(rings, state);
  ASSERT_TRUE(state.rings.has_value());
  EXPECT_TRUE(state.rings->empty());
}

}  // namespace
}  // namespace talos::netlink
