// The choice of the upstream that a query goes to. Pure.
//
// A query goes to the upstreams in the order of the list. An upstream that did not answer in time
// comes last for kSilentPause, so that a server that is down delays one query and not all. But if
// it has answered another query meanwhile, only the name is slow: else a pod that queries a name
// whose servers are down would send the queries of all to the next upstream, which may not know the
// names of this network. When all were silent, the query begins again with the first, because a
// datagram may have been lost; an upstream that refused it, or failed, does not get it again.
#pragma once

#include <kj/time.h>

#include <optional>
#include <vector>

#include "common/net/ip.h"

namespace talos::networkd::dns {

// The upstreams that one query still can be sent to.
class Attempts {
 public:
  explicit Attempts(std::vector<Endpoint> order) : order(std::move(order)) {}

  // Returns nullopt if every upstream has failed.
  std::optional<Endpoint> next();
  // The upstream of the last next() does not get the query again.
  void failed();

 private:
  std::vector<Endpoint> order;
  size_t position = 0;  // of the next one
};

class Upstreams {
 public:
  static constexpr kj::Duration kSilentPause = 10 * kj::SECONDS;

  void set(std::vector<Endpoint> list);
  const std::vector<Endpoint>& all() const { return list; }

  Attempts attempts(kj::TimePoint now) const;
  void answered(const Endpoint& upstream, kj::TimePoint now);
  // The upstream has not answered a query that it got at `began`.
  void silent(const Endpoint& upstream, kj::TimePoint began, kj::TimePoint now);

 private:
  struct Event {
    Endpoint upstream;
    kj::TimePoint time;
  };
  std::vector<Endpoint> list;
  std::vector<Event> silences;  // with their ends
  std::vector<Event> answers;   // the last answer of each upstream

  static void forget(std::vector<Event>& events, const Endpoint& upstream);
};

}  // namespace talos::networkd::dns
