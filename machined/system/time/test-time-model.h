// A clock that is wrong and servers that may be wrong, in virtual time, for tests.
#pragma once

#include <kj/debug.h>

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/net/ntp.h"
#include "machined/system/time/time-interfaces.h"

namespace talos::machined {

// The true time is 2026 plus the virtual timer.
struct ModelTime {
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};

  kj::Duration passed() const { return timer.now() - kj::origin<kj::TimePoint>(); }
  kj::Date truth() const { return kj::UNIX_EPOCH + 1790000000 * kj::SECONDS + passed(); }
};

class ModelClock final : public SystemClock {
 public:
  explicit ModelClock(ModelTime& time) : time(time) {}

  kj::Duration error = 0 * kj::SECONDS;  // positive if the clock is fast
  int64_t drift = 0;                     // ns in a second
  std::vector<kj::Duration> steps, slews;
  std::vector<unsigned> constants;

  kj::Duration wrongBy() const {
    return error + time.passed() / kj::SECONDS * drift * kj::NANOSECONDS;
  }
  kj::Date now() const override { return time.truth() + wrongBy(); }
  void step(kj::Duration by) override {
    error = error + by;
    steps.push_back(by);
  }
  void slew(kj::Duration by, kj::Duration, unsigned timeConstant) override {
    error = error + by;
    slews.push_back(by);
    constants.push_back(timeConstant);
  }

 private:
  ModelTime& time;
};

struct ModelServer {
  kj::Duration offset = 0 * kj::SECONDS;  // of the server's clock
  kj::Duration there = 5 * kj::MILLISECONDS, back = 5 * kj::MILLISECONDS;
  bool silent = false, noRoute = false;
  const char* kiss = nullptr;
  std::function<void(ntp::Packet&)> change;  // of the reply
  std::vector<kj::TimePoint> queries;
  unsigned forgeriesFirst = 0;  // before each answer
};

class ModelNetwork final : public TimeNetwork {
 public:
  ModelNetwork(ModelTime& time, ModelClock& clock) : time(time), clock(clock) {}

  std::map<std::string, ModelServer> servers;           // by address
  std::map<std::string, std::vector<std::string>> dns;  // for names; addresses stand for themselves
  std::map<std::string, kj::Duration> dnsDelay;
  unsigned lookups = 0;

  kj::Promise<kj::Array<kj::String>> resolve(kj::StringPtr name) override {
    ++lookups;
    kj::Vector<kj::String> result;
    auto found = dns.find(name.cStr());
    if (found != dns.end()) {
      for (auto& a : found->second) result.add(kj::str(a.c_str()));
    } else if (servers.count(name.cStr()) > 0) {
      result.add(kj::str(name));
    } else {
      fail(ErrorKind::kUnavailable, kj::str("cannot resolve \"", name, "\": no such name"));
    }
    auto delay = dnsDelay.count(name.cStr()) > 0 ? dnsDelay[name.cStr()] : 0 * kj::SECONDS;
    return time.timer.afterDelay(delay).then(
        [list = result.releaseAsArray()]() mutable { return kj::mv(list); });
  }

  kj::Own<TimeConversation> open(kj::StringPtr address) override {
    auto& server = servers[address.cStr()];
    if (server.noRoute) fail(ErrorKind::kUnavailable, "Network is unreachable");
    return kj::heap<Conversation>(*this, server);
  }

 private:
  ModelTime& time;
  ModelClock& clock;

  struct Conversation final : public TimeConversation {
    Conversation(ModelNetwork& net, ModelServer& server) : net(net), server(server) {}
    ModelNetwork& net;
    ModelServer& server;
    kj::Array<kj::byte> query;
    unsigned received = 0;

    void send(kj::ArrayPtr<const kj::byte> bytes) override {
      server.queries.push_back(net.time.timer.now());
      query = kj::heapArray(bytes);
    }
    kj::Promise<Reply> receive() override {
      if (server.silent) return kj::NEVER_DONE;
      if (received++ < server.forgeriesFirst) {
        ntp::Packet forged;
        forged.mode = ntp::kServer;
        forged.stratum = 1;
        forged.transmit = forged.receive = ntp::Timestamp::of(kj::UNIX_EPOCH + 9000 * kj::DAYS);
        return Reply{ntp::encode(forged), net.clock.now()};
      }
      auto at = net.time.truth() + server.there + server.offset;
      auto reply = KJ_ASSERT_NONNULL(ntp::decode(
          KJ_ASSERT_NONNULL(ntp::answer(query, at, at, {.stratum = 2, .referenceId = 1}))));
      if (server.kiss != nullptr) {
        reply.stratum = 0;
        reply.referenceId = 0;
        for (int i = 0; i < 4; ++i) {
          reply.referenceId = reply.referenceId << 8 | kj::byte(server.kiss[i]);
        }
      }
      if (server.change) server.change(reply);
      return net.time.timer.afterDelay(server.there + server.back)
          .then([this, bytes = ntp::encode(reply)]() mutable {
            return Reply{kj::mv(bytes), net.clock.now()};
          });
    }
  };
};

}  // namespace talos::machined
