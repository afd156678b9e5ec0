// A link with DHCPv6 servers that exist only in the test, and a clock that the test sets.
#pragma once

#include <gtest/gtest.h>
#include <kj/debug.h>

#include <random>

#include "common/testing/test-ip.h"
#include "networkd/dhcp/dhcp-client6.h"

namespace talos::networkd::dhcp::model6 {

using State = Client6::State;
using Type6 = Message6::Type;

inline const kj::byte kMac6[] = {2, 0, 0xa, 0xb, 0xc, 0xd};
constexpr uint32_t kNumber = 0x0a0b0c0d;
inline const kj::byte kServer[] = {0, 3, 0, 1, 2, 0, 0, 0, 0, 9},
                      kOther[] = {0, 3, 0, 1, 2, 0, 0, 0, 0, 8};

struct Client6Bench {
  kj::TimePoint now = kj::origin<kj::TimePoint>() + 1000 * kj::SECONDS;
  std::mt19937_64 random{1};
  kj::Maybe<kj::Own<Client6>> held;
  bool silent = false, rapid = true, none = false;
  bool knows = true;     // The server knows the leases that it gave.
  bool refuses = false;  // The server refuses its own offers.
  uint32_t preferred = 3000, valid = 4000;
  uint8_t preference = 0;
  kj::Vector<kj::String> log;
  kj::Vector<Message6> sent;

  explicit Client6Bench(bool address = true, kj::Maybe<Lease6> kept = nullptr,
                        Bytes identifier = nullptr) {
    held = kj::heap<Client6>(Settings6{copyOf(kMac6), address, copyOf(identifier)}, kj::mv(kept));
  }
  Client6& client() { return *KJ_ASSERT_NONNULL(held); }
  Moment moment() { return {now, random()}; }
  void up() { perform(client().linkUp(moment())); }
  // The kernel reports a duplicate of the held address, and the planner removes the address.
  void refuse() {
    perform(client().duplicated(moment()));
    perform(client().removed(moment()));
  }

  Message6 replyTo(const Message6& m, Bytes server = kServer) {
    Message6 reply;
    reply.exchange = m.exchange;
    reply.client = copyOf(m.client);
    reply.server = copyOf(server);
    reply.preference = preference;
    reply.resolvers.add(ip("fd00::53"));
    reply.rapidCommit = rapid && m.rapidCommit;
    bool offers = m.type == Type6::kSolicit && !reply.rapidCommit;
    reply.type = offers ? Type6::kAdvertise : Type6::kReply;
    if (m.associations.size() > 0 && m.type != Type6::kConfirm) {
      Association6 association;
      association.id = m.associations[0].id;
      if (!knows && (m.type == Type6::kRenew || m.type == Type6::kRebind)) {
        association.status = Status6{Status6::kNoBinding, kj::String()};
      } else if (none || (refuses && !offers)) {
        association.status = Status6{Status6::kNoAddresses, kj::str("none left")};
      } else {
        association.addresses.add(Address6{ip("fd00::9"), preferred, valid, nullptr});
      }
      reply.associations.add(kj::mv(association));
    }
    if (m.type == Type6::kConfirm) {
      reply.status = Status6{uint16_t(knows ? Status6::kSuccess : Status6::kNotOnLink), {}};
    }
    return reply;
  }
  void say(const Message6& m) { perform(client().handle(m, moment())); }

  void run(kj::Duration time) {
    auto end = now + time;
    for (unsigned steps = 0;; ++steps) {
      KJ_ASSERT(steps < 100000, "it does not stop");
      auto deadline = client().deadline();
      KJ_IF_MAYBE (at, deadline) {
        if (*at > end) break;
        now = kj::max(now, *at);
        perform(client().timeout(moment()));
        KJ_IF_MAYBE (lease, client().lease()) EXPECT_FALSE(lease->expired(now));
      } else {
        break;
      }
    }
    now = end;
  }
  kj::String takeLog() {
    auto text = kj::strArray(log, ", ");
    log.clear();
    return text;
  }

  void perform(Client6::Actions actions) {
    for (auto& action : actions) {
      KJ_SWITCH_ONEOF(action) {
        KJ_CASE_ONEOF(send, Client6::Send) {
          const kj::StringPtr kNames[] = {"",        "SOLICIT", "",       "REQUEST",
                                          "CONFIRM", "RENEW",   "REBIND", "",
                                          "RELEASE", "DECLINE", "",       "INFORMATION"};
          log.add(kj::str(kNames[static_cast<unsigned>(send.message.type)]));
          auto parsed = parse6(encode(send.message));
          auto& read = KJ_ASSERT_NONNULL(parsed.message);
          EXPECT_TRUE(encode(read) == encode(send.message));
          sent.add(kj::mv(send.message));
          KJ_REQUIRE(sent.size() < 2000, "a flood");
          if (!silent) say(replyTo(read));
        }
        KJ_CASE_ONEOF(bound, Bound) {
          log.add(kj::str("bound"));
        }
        KJ_CASE_ONEOF(lost, Lost) {
          EXPECT_TRUE(client().lease() == nullptr);
          log.add(kj::str("lost: ", lost.cause));
        }
      }
    }
  }
};

}  // namespace talos::networkd::dhcp::model6
