#include "networkd/plan/metadata-rules.h"

#include <gtest/gtest.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>

#include "common/testing/printing.h"

namespace talos::networkd {
namespace {

std::string hex(kj::ArrayPtr<const kj::byte> bytes) {
  std::string text;
  for (auto byte : bytes) {
    constexpr auto kDigits = "0123456789abcdef";
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}
kj::Array<Ip> addresses(std::initializer_list<kj::StringPtr> texts) {
  return KJ_MAP(text, texts) {
    return Ip::require(text);
  };
}
// Returns type and flags of the messages.
std::string types(kj::ArrayPtr<const kj::Array<kj::byte>> writes) {
  std::string text;
  for (auto& bytes : writes) {
    for (size_t at = 0; at + sizeof(nlmsghdr) <= bytes.size();) {
      nlmsghdr header;
      memcpy(&header, bytes.slice(at, at + sizeof header).begin(), sizeof header);
      text += kj::str(kj::hex(header.nlmsg_type), ":", kj::hex(header.nlmsg_flags), " ").cStr();
      at += NLMSG_ALIGN(header.nlmsg_len);
    }
  }
  return text;
}
kj::Maybe<FilterRule> read(kj::ArrayPtr<const kj::byte> message) {
  kj::Maybe<FilterRule> rule;
  netlink::eachMessage(message, netlink::Format::kGeneric, [&](netlink::Message&& one) {
    KJ_IF_MAYBE (part, one.body.tryGet<netlink::Generic>()) {
      KJ_IF_MAYBE (found, readRule(*part, kMetadataTable)) rule = kj::mv(*found);
    }
  });
  return rule;
}

// Catches: changes outside of a batch, which the kernel would apply one by one; rules that are
// added to an existing table, and so exist twice; an acknowledgement that never arrives.
TEST(MetadataRules, OneBatchReplacesTheTable) {
  // Begin, table, its removal, table, two chains, rules, and the end in one buffer with the last
  // rule.
  EXPECT_EQ(types(encodeMetadataRules(addresses({"169.254.169.254", "fd00:ec2::254"}))),
            "10:1 a00:401 a02:1 a00:401 a03:401 a03:401 a06:c01 a06:c01 a06:c01 a06:c01 a06:c01 "
            "a06:c01 a06:c05 11:1 ");
  // The removal of the table.
  EXPECT_EQ(types(TableBatch(kMetadataTable).finish()), "10:1 a00:401 a02:5 11:1 ");
}

// Catches: a number in this machine's byte order; a wrong offset or verdict. The bytes are those of
// `nft --debug=netlink add rule inet talos-metadata …`.
TEST(MetadataRules, Bytes) {
  auto writes = encodeMetadataRules(addresses({"169.254.169.254"}));
  auto chain = hex(writes[4]);
  // Hook 2 (forward), priority -10, policy 1 (accept).
  EXPECT_NE(chain.find("0800010000000002"
                       "08000200fffffff6"),
            std::string::npos)
      << chain;
  EXPECT_NE(chain.find("0800050000000001"), std::string::npos) << chain;
  auto first = hex(writes[6]);
  // Load 4 bytes at 16 of the network header, compare with the address, jump (-3).
  EXPECT_NE(first.find("08000100"
                       "00000001"
                       "08000200"
                       "00000001"
                       "08000300"
                       "00000010"
                       "08000400"
                       "00000004"),
            std::string::npos)
      << first;
  EXPECT_NE(first.find("a9fea9fe"), std::string::npos) << first;
  EXPECT_NE(first.find("08000100"
                       "fffffffd"),
            std::string::npos)
      << first;
  auto tcp = hex(writes[7]);
  // The TCP flags, masked with SYN and ACK, differ from SYN (operation 1).
  EXPECT_NE(tcp.find("08000300"
                     "0000000d"
                     "08000400"
                     "00000001"),
            std::string::npos)
      << tcp;
  EXPECT_NE(tcp.find("0500010012000000"), std::string::npos) << tcp;
  EXPECT_NE(tcp.find("08000200"
                     "00000001"
                     "0c000380"
                     "0500010002000000"),
            std::string::npos)
      << tcp;
  auto last = hex(writes[11]);
  EXPECT_NE(last.find("636f756e74657200"), std::string::npos) << last;  // "counter"
  EXPECT_NE(last.find("0c000280"
                      "08000100"
                      "00000000"),
            std::string::npos)
      << last;  // drop
  // Load 16 bytes at 24.
  auto six = hex(encodeMetadataRules(addresses({"fd00:ec2::254"}))[6]);
  EXPECT_NE(six.find("08000300"
                     "00000018"
                     "08000400"
                     "00000010"),
            std::string::npos)
      << six;
}

// Catches: rules that a later networkd does not recognize, or takes for those of other addresses;
// rules of another table.
TEST(MetadataRules, AreKnownAgain) {
  auto both = addresses({"169.254.169.254", "fd00:ec2::254"});
  auto wanted = metadataRules(both);
  auto writes = encodeMetadataRules(both);
  kj::Vector<FilterRule> found;
  for (auto& bytes : writes) {
    // Rules as the kernel lists them.
    KJ_IF_MAYBE (rule, read(bytes)) found.add(kj::mv(*rule));
  }
  ASSERT_EQ(found.size(), wanted.size());
  EXPECT_TRUE(sameRules(found, wanted));
  EXPECT_STREQ(wanted[1].comment.cStr(), "to fd00:ec2::254");
  EXPECT_FALSE(sameRules(found, metadataRules(addresses({"169.254.169.254"}))));
  EXPECT_FALSE(sameRules(found, metadataRules(addresses({"169.254.169.254", "fd00:ec2::255"}))));

  netlink::MessageBuilder other(NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWRULE, 0);
  other.header<nfgenmsg>();
  other.putText(NFTA_RULE_TABLE, "kube-proxy");
  EXPECT_TRUE(read(other.finish()) == nullptr);
}

// Catches: a count of bytes taken for that of packets, or with its octets in another order.
TEST(MetadataRules, Packets) {
  netlink::MessageBuilder out(NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWRULE, 0);
  out.header<nfgenmsg>();
  out.putText(NFTA_RULE_TABLE, kMetadataTable);
  out.nest(NFTA_RULE_EXPRESSIONS, [&] {
    out.nest(NFTA_LIST_ELEM, [&] {
      out.putText(NFTA_EXPR_NAME, "counter");
      out.nest(NFTA_EXPR_DATA, [&] {
        const kj::byte bytes[] = {0, 0, 0, 0, 0, 0, 0, 120}, packets[] = {0, 0, 0, 0, 0, 0, 1, 2};
        out.put(NFTA_COUNTER_BYTES, bytes);
        out.put(NFTA_COUNTER_PACKETS, packets);
      });
    });
  });
  EXPECT_EQ(KJ_ASSERT_NONNULL(read(out.finish())).packets, 258u);
}

}  // namespace
}  // namespace talos::networkd
