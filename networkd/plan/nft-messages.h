// Tables of nf_tables, the kernel's packet filter, as messages: the batch that replaces a table,
// and the rules that the kernel lists. Pure.
//
// A table of networkd is its own, so kube-proxy and network plugins, which flush their tables,
// leave it alone. It is replaced as a whole, in one batch that the kernel applies completely or not
// at all: no packet passes in between, and no rule exists twice. Each rule has a comment, as nft(8)
// shows it, by which a later networkd recognizes that the kernel already has the rules.
#pragma once

#include <kj/function.h>
#include <kj/vector.h>

#include "common/netlink/netlink-codec.h"

namespace talos::networkd {

// A rule as the kernel lists it.
struct FilterRule {
  kj::String chain, comment;
  uint64_t packets = 0;  // number of matched packets; 0 if the rule does not count them
};

// Returns true if both have the same rules, with any packet counts.
bool sameRules(kj::ArrayPtr<const FilterRule> some, kj::ArrayPtr<const FilterRule> others);

kj::Array<kj::byte> encodeRuleDump(kj::StringPtr table);
// Returns nullptr if the message is not a rule of the table.
kj::Maybe<FilterRule> readRule(const netlink::Generic& message, kj::StringPtr table);

// The expressions of a rule; the kernel evaluates them until one does not match. Each loads its
// operand into the first register.
class Expressions {
 public:
  explicit Expressions(netlink::MessageBuilder& out) : out(out) {}

  void family(uint8_t wanted);                      // NFPROTO_IPV4, NFPROTO_IPV6
  void transport(uint8_t wanted);                   // IPPROTO_*
  void arrivesAt(kj::StringPtr link);               // a name
  void source(const Prefix& network);               // after its family
  void destination(const Prefix& network);          // after its family
  void ports(uint16_t first, uint16_t last);        // destination ports of TCP and UDP
  void types(uint8_t first, uint8_t last);          // types of ICMP and ICMPv6
  void connection(uint32_t states);                 // in one of these states, NF_CT_STATE_*
  void reply();                                     // from the side that did not open it
  void passesBy();                                  // to an address that the node does not have
  void atMost(uint32_t perSecond, uint32_t burst);  // packets
  void underWay();                                  // TCP that does not open a connection
  void count();
  void jump(kj::StringPtr chain);
  void goBack();  // to the chain of the jump
  void accept();
  void drop();

 private:
  netlink::MessageBuilder& out;

  template <typename F>
  void each(kj::StringPtr name, F&& fill);
  void load(uint32_t base, uint32_t offset, uint32_t size);
  void meta(uint32_t key, kj::ArrayPtr<const kj::byte> wanted);
  void mask(kj::ArrayPtr<const kj::byte> bits);
  void compare(uint32_t operation, kj::ArrayPtr<const kj::byte> value);
  void address(uint32_t offset, const Prefix& network);
  void verdict(uint32_t code, kj::StringPtr chain);
};

// The batch of Socket::transactAtOnce() that replaces a table.
class TableBatch {
 public:
  // Every packet at the hook passes a chain that has one.
  struct Hook {
    uint32_t number;     // NF_INET_*
    int32_t priority;    // of several chains, the lowest first
    bool drops = false;  // a packet that no rule decides
  };
  // Begins with the removal of the table, if it exists. A batch without more messages removes it.
  explicit TableBatch(kj::StringPtr table);
  KJ_DISALLOW_COPY_AND_MOVE(TableBatch);

  void addTable();
  void addChain(kj::StringPtr name, kj::Maybe<Hook> hook = nullptr);
  // Adds a rule at the end of a chain. A comment has at most 127 bytes.
  void addRule(kj::StringPtr chain, kj::StringPtr comment,
               kj::FunctionParam<void(Expressions)> fill);
  kj::Vector<kj::Array<kj::byte>> finish();

 private:
  kj::StringPtr table;
  kj::Vector<kj::Array<kj::byte>> messages;

  kj::Array<kj::byte> encodeTable(unsigned message, uint16_t flags);
};

}  // namespace talos::networkd
