// Scores of API servers: the servers that the balancer uses, and in which order. Pure: the results
// of connections and their times are passed in.
//
// A score is -3 to 3 and starts at 1. Each check and each connection raises it by 1, or lowers it
// by 1 if the server was not reached. A server is usable from 0 on. Usable servers form tiers by
// the time that the last connect took: below 1 ms, 10 ms, 100 ms, and more; a server that was never
// reached is in the best tier. pick() goes round the servers of the best tier.
#pragma once

#include <kj/string.h>
#include <kj/time.h>
#include <kj/vector.h>

namespace talos::kubed {

// Health of the servers together.
enum class Health {
  kUnknown,  // a server is usable, but none that is usable was ever reached
  kReached,  // a usable server was reached
  kNone,     // no server is usable
};

struct ApiServer {
  kj::String host;  // name or address, without brackets
  uint16_t port;

  kj::String name() const;  // 10.5.0.2:6443, [fd00::2]:6443
  ApiServer clone() const { return {kj::str(host), port}; }
  bool operator==(const ApiServer& other) const { return port == other.port && host == other.host; }
};

class ServerScores {
 public:
  static constexpr int kLowest = -3, kHighest = 3, kFirst = 1, kUsable = 0;

  struct Entry {
    ApiServer server;
    int score = kFirst;
    kj::Maybe<kj::Duration> connectTime;  // of the last connect

    bool isUsable() const { return score >= kUsable; }
    unsigned tier() const;  // 0 is the best
  };

  // Replaces the servers; duplicates are left out. A server that stays keeps its score. Returns
  // false for the same list.
  bool set(kj::ArrayPtr<const ApiServer> servers);
  // Note the result of a check or a connection. A server that is not in the list any more is
  // ignored.
  void reached(const ApiServer& server, kj::Duration connectTime);
  void failed(const ApiServer& server);
  // Returns the next server, except those in `tried`; nullptr if no other server is usable. Valid
  // until the next set().
  kj::Maybe<const ApiServer&> pick(kj::ArrayPtr<const ApiServer> tried = nullptr);
  Health health() const;
  kj::ArrayPtr<const Entry> all() const { return entries; }

 private:
  kj::Vector<Entry> entries;
  size_t next = 0;  // index at which pick() begins

  kj::Maybe<Entry&> find(const ApiServer& server);
};

}  // namespace talos::kubed
