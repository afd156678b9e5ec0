// The choice of the upstream that a query goes to. Pure.
//
// A query goes to the upstreams in the order of the list. An upstream that did not answer in time
// comes last for kSilentPause, so that a server that is down delays one query and not all. When all
// were silent, the query begins again with the first, because a datagram may have been lost; an
// upstream that refused it, or failed, does not get it again.
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
  void answered(const Endpoint& upstream);
  void silent(const Endpoint& upstream, kj::TimePoint now);

 private:
  struct Silence {
    Endpoint upstream;
    kj::TimePoint until;
  };
  std::vector<Endpoint> list;
  std::vector<Silence> silences;
};

}  // namespace talos::networkd::dns
