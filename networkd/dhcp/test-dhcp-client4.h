// A model server and network for tests of the DHCPv4 client: packets are lost, late, doubled or
// forged as a test says, and time is a number.
#pragma once

#include <gtest/gtest.h>
#include <kj/debug.h>

#include <map>
#include <random>

#include "common/testing/test-ip.h"
#include "networkd/dhcp/dhcp-client4.h"

namespace talos::networkd::dhcp::model4 {

using State = Client4::State;
using Type = Message4::Type;

const kj::byte kMac[] = {2, 0, 0, 0, 0, 1}, kOtherMac[] = {2, 0, 0, 0, 0, 2};

// A server that answers as RFC 2131 §4.3 says, for one subnet.
struct Server {
  Ip identifier = ip("10.0.0.1");
  Ip address = ip("10.0.0.9");  // the address that it gives
  uint32_t seconds = 3600;
  bool knows = true;  // The server knows the client's lease; else it refuses.
  bool silent = false;
  std::map<uint32_t, kj::TimePoint> until;  // last octet -> end of the lease as the server sees it

  kj::Maybe<Message4> answer(const Message4& m, kj::TimePoint now) {
    if (silent) return nullptr;
    Message4 reply;
    reply.reply = true;
    reply.hardwareAddress = copyOf(m.hardwareAddress);
    reply.exchange = m.exchange;
    reply.server = identifier;
    reply.next = ip("10.0.0.77");  // a boot file server, which must not receive requests
    auto give = [&](Type type, Ip to) {
      reply.type = type;
      reply.yours = to;
      reply.lease = seconds;
      reply.prefixLength = 24u;
      reply.routers.add(ip("10.0.0.1"));
      if (type == Type::kAck) until.insert_or_assign(to.bytes()[3], now + seconds * kj::SECONDS);
    };
    if (m.type == Type::kDiscover) {
      give(Type::kOffer, address);
      return kj::mv(reply);
    }
    if (m.type == Type::kRelease && m.server == identifier) until.erase(m.client.bytes()[3]);
    if (m.type == Type::kDecline) address = ip("10.0.0.10");
    if (m.type != Type::kRequest) return nullptr;
    KJ_IF_MAYBE (chosen, m.server) {
      if (*chosen != identifier) return nullptr;
    }
    Ip wanted = m.requested.orDefault(m.client);
    if (knows && wanted == address) {
      give(Type::kAck, wanted);
    } else {
      reply.type = Type::kNak;
      reply.text = kj::str("wrong network");
    }
    return kj::mv(reply);
  }
};

class Client4Bench {
 public:
  Server server;
  kj::TimePoint now = kj::origin<kj::TimePoint>() + 1000 * kj::SECONDS;
  kj::Maybe<kj::Own<Client4>> held;
  std::mt19937_64 random{1};
  unsigned lossOutOf100 = 0, doubledOutOf100 = 0;
  kj::Duration delay = 1 * kj::MILLISECONDS, jitter = 0 * kj::SECONDS;
  kj::Maybe<Ip> taken;         // another machine has this address
  kj::Vector<kj::String> log;  // "DISCOVER", "bound 10.0.0.9", ...
  kj::Vector<Message4> sent;

  explicit Client4Bench(kj::Maybe<Lease4> kept = nullptr) {
    Settings4 settings{copyOf(kMac), kj::str("node")};
    held = kj::heap<Client4>(kj::mv(settings), kj::mv(kept));
  }
  Client4& client() { return *KJ_ASSERT_NONNULL(held); }
  Moment moment() { return {now, random()}; }
  void up() { perform(client().linkUp(moment())); }
  void down() { perform(client().linkDown(moment())); }
  void say(const Message4& m) { perform(client().handle(m, moment())); }

  void run(kj::Duration time) {
    auto end = now + time;
    unsigned steps = 0;
    for (;;) {
      KJ_ASSERT(++steps < 100000, "it does not stop");
      kj::Maybe<kj::TimePoint> at = client().deadline();
      bool deliver = false;
      if (!network.empty()) {
        auto first = network.begin()->first;
        deliver = at == nullptr || first <= KJ_ASSERT_NONNULL(at);
        if (deliver) at = first;
      }
      KJ_IF_MAYBE (moment, at) {
        if (*moment > end) break;
        now = kj::max(now, *moment);
        if (deliver) {
          auto packet = kj::mv(network.begin()->second);
          network.erase(network.begin());
          packet();
        } else {
          perform(client().timeout(this->moment()));
        }
      } else {
        break;
      }
      check();
    }
    now = end;
  }
  kj::String takeLog() {
    auto text = kj::strArray(log, ", ");
    log.clear();
    return text;
  }
  kj::String address() {
    KJ_IF_MAYBE (lease, client().lease()) return kj::str(lease->address);
    return kj::str("none");
  }
  kj::Own<Lease4> lease() { return kj::heap(KJ_ASSERT_NONNULL(client().lease()).clone()); }

  void perform(Client4::Actions actions) {
    for (auto& action : actions) {
      KJ_SWITCH_ONEOF(action) {
        KJ_CASE_ONEOF(broadcast, Broadcast) {
          transmit(kj::mv(broadcast.message), nullptr);
        }
        KJ_CASE_ONEOF(unicast, Unicast) {
          EXPECT_TRUE(unicast.from == unicast.message.client);
          transmit(kj::mv(unicast.message), unicast.to);
        }
        KJ_CASE_ONEOF(release, Release) {
          EXPECT_TRUE(release.from == release.message.client);
          transmit(kj::mv(release.message), release.to);
        }
        KJ_CASE_ONEOF(arp, SendArp) {
          log.add(kj::str(arp.arp.senderAddress.isAny() ? "probe" : "announce"));
          KJ_IF_MAYBE (other, taken) {
            if (arp.arp.targetAddress == *other) {
              later([this, address = *other] {
                Arp reply{.operation = Arp::Operation::kReply,
                          .sender = copyOf(kOtherMac),
                          .senderAddress = address,
                          .target = copyOf(kMac),
                          .targetAddress = Ip::any(AF_INET)};
                perform(client().handle(reply, moment()));
              });
            }
          }
        }
        KJ_CASE_ONEOF(bound, Bound) {
          log.add(kj::str("bound ", address()));
        }
        KJ_CASE_ONEOF(lost, Lost) {
          EXPECT_TRUE(client().lease() == nullptr);
          log.add(kj::str("lost: ", lost.cause));
        }
      }
    }
  }

 private:
  std::multimap<kj::TimePoint, kj::Function<void()>> network;

  void later(kj::Function<void()> what) {
    auto extra =
        jitter == 0 * kj::SECONDS
            ? jitter
            : static_cast<int64_t>(random() % uint64_t(jitter / kj::NANOSECONDS)) * kj::NANOSECONDS;
    network.emplace(now + delay + extra, kj::mv(what));
  }
  void transmit(Message4 message, kj::Maybe<Ip> to) {
    const kj::StringPtr kNames[] = {"",        "DISCOVER", "OFFER", "REQUEST",
                                    "DECLINE", "ACK",      "NAK",   "RELEASE"};
    log.add(kj::str(kNames[static_cast<unsigned>(message.type)], to == nullptr ? "" : " unicast"));
    // Checks that the codec can carry every sent message.
    auto parsed = parse4(encode(message));
    auto& read = KJ_ASSERT_NONNULL(parsed.message);
    EXPECT_TRUE(read == message);
    sent.add(kj::mv(message));
    KJ_IF_MAYBE (only, to) {
      if (*only != server.identifier) return;
    }
    unsigned copies = 1 + (random() % 100 < doubledOutOf100);
    for (unsigned i = 0; i < copies; ++i) {
      if (random() % 100 < lossOutOf100) continue;
      later([this, m = kj::heap(KJ_ASSERT_NONNULL(parse4(encode(read)).message))]() mutable {
        KJ_IF_MAYBE (reply, server.answer(*m, now)) {
          if (random() % 100 < lossOutOf100) return;
          later([this, r = kj::heap(kj::mv(*reply))]() { say(*r); });
        }
      });
    }
  }
  // In every case, an address is used only while the server holds it for us.
  void check() {
    KJ_IF_MAYBE (lease, client().lease()) {
      auto there = server.until.find(lease->address.address.bytes()[3]);
      if (there != server.until.end() && lease->seconds != kInfinite) {
        EXPECT_LT(now, there->second) << "an address beyond its lease";
      }
    }
  }
};

constexpr auto kBoot =
    "DISCOVER, REQUEST, probe, probe, probe, bound 10.0.0.9/24, announce, announce";

}  // namespace talos::networkd::dhcp::model4
